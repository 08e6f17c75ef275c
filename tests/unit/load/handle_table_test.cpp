// Goal: every request finds the handle of its key. Method: handles that contain their key.
#include "load/handle_table.hpp"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

TEST(HandleTable, has_each_key_of_its_questions_once) {
  const std::vector<PlannedEntry> planned{{.key = 9}, {.key = 3}, {.key = 9}, {.key = 5}};
  HandleTable table{planned, 10};
  EXPECT_EQ((std::vector<uint32_t>{table.keys().begin(), table.keys().end()}),
            (std::vector<uint32_t>{3, 5, 9}));
  const std::vector<uint32_t> first{103}, rest{105, 109};
  table.add(first);
  table.add(rest);
  for (size_t i = 0; i < planned.size(); ++i) {
    EXPECT_EQ(table.of_question(i), planned[i].key + 100);
  }
}

}  // namespace
}  // namespace sluice::load
