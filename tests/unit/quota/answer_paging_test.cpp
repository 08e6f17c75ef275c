// Goal:   a page has the rows that were asked for, within its bound, and the next page begins
//         behind them.
// Method: calls by hand, with and without a limit and a cursor.
#include "quota/answer_paging.hpp"

#include <gtest/gtest.h>

namespace sluice::quota {
namespace {

TEST(AnswerPaging, has_as_many_rows_as_are_asked_for_within_the_bound) {
  EXPECT_EQ(rows_max({.limit = 0}), limits::subjects_page_max);
  EXPECT_EQ(rows_max({.limit = 1}), 1U);
  EXPECT_EQ(rows_max({.limit = limits::subjects_page_max + 1}), limits::subjects_page_max);
}

TEST(AnswerPaging, begins_at_the_first_place_or_at_the_cursor) {
  EXPECT_EQ(first_place({.cursor = 0}), 0U);
  for (const uint64_t place : {uint64_t{0}, uint64_t{7}, uint64_t{0xFFFF'FFFF}}) {
    EXPECT_NE(cursor_at(place), 0U);  // zero is no cursor
    EXPECT_EQ(first_place({.cursor = cursor_at(place)}), place);
  }
}

}  // namespace
}  // namespace sluice::quota
