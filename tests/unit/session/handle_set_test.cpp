// Handles of one connection: each is held once, no other bit changes, and take_out() takes them out
// in slices of bounded work.
#include "session/handle_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice::session {
namespace {

constexpr uint32_t handles_max = 1'000;  // the last word is not full
const std::vector<api::Handle> edges = {0, 1, 62, 63, 64, 65, 127, 128, 959, 960, 998, 999};

std::vector<api::Handle> take_all(HandleSet& set) {
  std::vector<api::Handle> taken;
  while (set.count() > 0) {
    set.take_out(7, [&](api::Handle handle) { taken.push_back(handle); });
  }
  return taken;
}

TEST(HandleSet, holds_exactly_the_added_handles) {
  HandleSet set(handles_max);
  for (const api::Handle handle : edges) EXPECT_TRUE(set.add(handle));
  EXPECT_EQ(set.count(), edges.size());
  for (api::Handle handle = 0; handle < handles_max + 200; ++handle) {
    EXPECT_EQ(set.holds(handle), std::ranges::count(edges, handle) == 1) << handle;
  }
  EXPECT_FALSE(set.holds(api::no_handle));
}

TEST(HandleSet, handles_at_word_edges_are_independent) {
  for (const api::Handle edge : edges) {
    HandleSet set(handles_max);
    set.add(edge);
    for (const api::Handle other : edges) EXPECT_EQ(set.holds(other), other == edge);
    EXPECT_TRUE(set.remove(edge));
    EXPECT_FALSE(set.holds(edge));
    EXPECT_EQ(set.count(), 0U);
  }
}

TEST(HandleSet, adds_and_removes_once) {
  HandleSet set(handles_max);
  EXPECT_TRUE(set.add(64));
  EXPECT_FALSE(set.add(64));
  EXPECT_EQ(set.count(), 1U);
  EXPECT_FALSE(set.remove(63));
  EXPECT_TRUE(set.remove(64));
  EXPECT_FALSE(set.remove(64));
  EXPECT_EQ(set.count(), 0U);
}

TEST(HandleSet, removes_none_beyond_its_bounds) {
  HandleSet set(handles_max);
  set.add(handles_max - 1);
  EXPECT_FALSE(set.remove(handles_max));
  EXPECT_FALSE(set.remove(handles_max + 23));  // in the last word
  EXPECT_FALSE(set.remove(handles_max + 64));
  EXPECT_FALSE(set.remove(api::no_handle));
  EXPECT_EQ(set.count(), 1U);
}

TEST(HandleSet, holds_all_needs_every_one) {
  HandleSet set(handles_max);
  for (const api::Handle handle : edges) set.add(handle);
  EXPECT_TRUE(set.holds_all(edges));
  EXPECT_TRUE(set.holds_all({}));
  EXPECT_TRUE(set.holds_all(std::vector<api::Handle>(100, 63)));
  for (size_t index = 0; index < edges.size(); ++index) {
    std::vector<api::Handle> handles = edges;
    handles[index] = 500;  // its word is empty
    EXPECT_FALSE(set.holds_all(handles)) << index;
    handles[index] = 61;  // its word holds others
    EXPECT_FALSE(set.holds_all(handles)) << index;
  }
}

TEST(HandleSet, holds_all_is_false_for_any_that_is_out_of_range) {
  HandleSet set(handles_max);
  for (api::Handle handle = 0; handle < handles_max; ++handle) set.add(handle);
  for (const api::Handle beyond :
       {handles_max, handles_max + 23, handles_max + 24, 1U << 31, api::no_handle}) {
    for (size_t index = 0; index < edges.size(); ++index) {
      std::vector<api::Handle> handles = edges;
      handles[index] = beyond;
      EXPECT_FALSE(set.holds_all(handles)) << beyond;
    }
  }
  EXPECT_TRUE(set.holds_all(edges));
}

TEST(HandleSet, works_with_a_single_handle) {
  HandleSet set(1);
  EXPECT_FALSE(set.holds(0));
  EXPECT_TRUE(set.add(0));
  EXPECT_FALSE(set.holds(1));
  EXPECT_FALSE(set.holds_all(std::vector<api::Handle>{0, 1}));
  EXPECT_EQ(take_all(set), std::vector<api::Handle>{0});
}

TEST(HandleSet, takes_out_each_once_lowest_first) {
  HandleSet set(handles_max);
  for (auto handle = edges.rbegin(); handle != edges.rend(); ++handle) set.add(*handle);
  EXPECT_EQ(take_all(set), edges);
  for (const api::Handle handle : edges) EXPECT_FALSE(set.holds(handle));
}

TEST(HandleSet, takes_out_at_most_work_max) {
  HandleSet set(handles_max);
  for (api::Handle handle = 0; handle < 100; ++handle) set.add(handle);
  uint32_t taken = 0;
  const auto drop_reference = [&](api::Handle handle) { EXPECT_EQ(handle, taken++); };
  EXPECT_EQ(set.take_out(0, drop_reference), 0U);
  EXPECT_EQ(set.take_out(64, drop_reference), 64U);
  EXPECT_EQ(taken, 64U);
  EXPECT_EQ(set.take_out(2, drop_reference), 2U);
  EXPECT_EQ(taken, 66U);
  EXPECT_EQ(set.count(), 34U);
  EXPECT_EQ(set.take_out(1'000, drop_reference), 34U);
  EXPECT_EQ(set.count(), 0U);
  EXPECT_EQ(set.take_out(1'000, drop_reference), 0U);
}

// Sixty-four words are as much work as a handle.
TEST(HandleSet, empty_words_between_handles_cost_work) {
  HandleSet set(64 * 64 * 10);
  set.add(0);
  set.add(64 * 64 * 9);
  std::vector<api::Handle> taken;
  const auto drop_reference = [&](api::Handle handle) { taken.push_back(handle); };
  EXPECT_EQ(set.take_out(5, drop_reference), 5U);
  EXPECT_EQ(taken, std::vector<api::Handle>{0});
  EXPECT_EQ(set.take_out(100, drop_reference), 6U);
  EXPECT_EQ(taken, (std::vector<api::Handle>{0, 64 * 64 * 9}));
}

TEST(HandleSet, skipping_to_the_first_handle_costs_no_work) {
  HandleSet set(1'000'000);
  set.add(999'999);
  EXPECT_EQ(set.take_out(1, [](api::Handle) {}), 1U);
  EXPECT_EQ(set.count(), 0U);
}

}  // namespace
}  // namespace sluice::session
