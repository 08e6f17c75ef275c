// A split request has room or is not admitted, keeps its keys until it closes, and is complete with
// its last answer.
#include "route/split_book.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::route {
namespace {

using api::Verdict;

constexpr SplitOptions tiny{.entries_max = 8, .text_bytes_max = 32};

api::Entry entry(const std::string& key) {
  return {.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
}

SplitBook::Index open(SplitBook& book, uint32_t count, uint64_t id = 0) {
  return book.open({.session = 1, .generation = 2, .id = id, .entries_count = count});
}

void settle_all(SplitBook& book, SplitBook::Index split, uint32_t count) {
  for (uint32_t place = 0; place < count; ++place) {
    const bool complete = book.settle(book.slot(split, place), Verdict::approved, {});
    EXPECT_EQ(complete, place + 1 == count);
  }
}

TEST(SplitBook, keeps_keys_and_answers_in_their_places) {
  SplitBook book(tiny);
  const SplitBook::Index split = open(book, 3);
  std::string first = "first", last = "last";
  book.put(book.slot(split, 0), entry(first));
  book.put(book.slot(split, 2), entry(last));
  first = last = "overwritten";  // like a receive buffer
  EXPECT_FALSE(book.settle(book.slot(split, 2), Verdict::denied, {}));
  book.put_decided(book.slot(split, 1), {.cost = 7}, Verdict::queued, {.limit = 5});
  EXPECT_TRUE(book.settle(book.slot(split, 0), Verdict::approved, {}));
  const SplitBook::Parts parts = book.parts(split);
  EXPECT_EQ(parts.entries[0].key(), "first");
  EXPECT_EQ(parts.entries[1].cost, 7U);
  EXPECT_EQ(parts.entries[2].key(), "last");
  EXPECT_EQ(parts.verdicts[0], Verdict::approved);
  EXPECT_EQ(parts.verdicts[1], Verdict::queued);
  EXPECT_EQ(parts.verdicts[2], Verdict::denied);
  EXPECT_EQ(parts.details[1].limit, 5U);
}

TEST(SplitBook, keeps_overrides) {
  SplitBook book(tiny);
  const SplitBook::Index split = open(book, 2);
  const std::string key = "k";
  api::Overrides given{.max_requests = 5, .window_ms = 60'000};
  api::Entry asked = entry(key);
  book.put(book.slot(split, 0), asked);
  asked.given_overrides = &given;
  book.put(book.slot(split, 1), asked);
  given = {};  // like those of the next turn
  EXPECT_EQ(book.entry(book.slot(split, 0)).given_overrides, nullptr);
  EXPECT_EQ(book.entry(book.slot(split, 1)).overrides(),
            (api::Overrides{.max_requests = 5, .window_ms = 60'000}));
}

// An entry for a handle that is not held has no text.
TEST(SplitBook, an_entry_may_have_no_text) {
  SplitBook book(tiny);
  const SplitBook::Index split = open(book, 1);
  book.put(book.slot(split, 0), api::Entry{});
  EXPECT_EQ(book.entry(book.slot(split, 0)).key(), "");
  settle_all(book, split, 1);
  book.close(split);
}

TEST(SplitBook, frees_room_in_the_order_taken) {
  SplitBook book(tiny);
  const auto first = open(book, 3);
  const auto second = open(book, 3);
  EXPECT_TRUE(book.has_room(2, 0));
  EXPECT_FALSE(book.has_room(3, 0));
  settle_all(book, second, 3);
  book.close(second);
  EXPECT_FALSE(book.has_room(3, 0));  // behind the first, which is still open
  settle_all(book, first, 3);
  book.close(first);
  EXPECT_TRUE(book.has_room(8, 32));
  EXPECT_EQ(book.open_count(), 0U);
}

TEST(SplitBook, contiguous_slots_wrap_to_the_start_of_the_ring) {
  SplitBook book(tiny);
  const auto first = open(book, 5);
  const auto second = open(book, 2);
  settle_all(book, first, 5);
  book.close(first);
  // One slot is left at the end, five at the start: four contiguous ones fit, six do not.
  EXPECT_TRUE(book.has_room(5, 0));
  EXPECT_FALSE(book.has_room(6, 0));
  const auto third = open(book, 4);
  EXPECT_EQ(book.slot(third, 0), 0U);
  settle_all(book, second, 2);
  book.close(second);
  settle_all(book, third, 4);
  book.close(third);
  EXPECT_TRUE(book.has_room(8, 0));
}

TEST(SplitBook, keys_have_a_bound_of_their_own) {
  SplitBook book(tiny);
  const auto split = open(book, 1);
  const std::string key(20, 'k');
  book.put(book.slot(split, 0), entry(key));
  EXPECT_TRUE(book.has_room(1, 12));
  EXPECT_FALSE(book.has_room(1, 13));
  settle_all(book, split, 1);
  book.close(split);
  EXPECT_TRUE(book.has_room(1, 32));
}

TEST(SplitBook, finds_open_requests_by_session_and_id) {
  SplitBook book(tiny);
  const auto split = open(book, 1, 77);
  EXPECT_TRUE(book.holds(1, 2, 77));
  EXPECT_FALSE(book.holds(1, 2, 78));
  EXPECT_FALSE(book.holds(1, 3, 77));
  settle_all(book, split, 1);
  book.close(split);
  EXPECT_FALSE(book.holds(1, 2, 77));
}

}  // namespace
}  // namespace sluice::route
