// Requests by key and by handle share the arrays of a turn; runs separate them, in order.
#include "route/turn.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

namespace sluice::route {
namespace {

class TurnTest : public ::testing::Test {
 protected:
  void by_key(uint32_t count) {
    for (api::Entry& entry : turn_.add({.id = ++id_}, count)) entry.cost = 7;
  }
  void by_handle(const std::vector<api::Handle>& handles) { turn_.add({.id = ++id_}, handles); }

  // "k3 h2": three places by key, then two by handle.
  std::string runs() const {
    std::string text;
    uint32_t first = 0;
    for (const route::Run& run : turn_.runs()) {
      EXPECT_EQ(run.first_entry, first);
      first += run.entries_count;
      text += std::string(text.empty() ? "" : " ") + (run.by_handle ? "h" : "k") +
              std::to_string(run.entries_count);
    }
    EXPECT_EQ(first, turn_.entries_count());
    return text;
  }

  Turn turn_;
  uint64_t id_ = 0;
};

TEST_F(TurnTest, an_empty_turn_has_no_runs) {
  EXPECT_TRUE(turn_.empty());
  EXPECT_EQ(runs(), "");
}

TEST_F(TurnTest, requests_of_one_kind_are_one_run) {
  by_key(3);
  by_key(2);
  EXPECT_EQ(runs(), "k5");
  turn_.clear();
  by_handle({1, 2});
  by_handle({3});
  EXPECT_EQ(runs(), "h3");
}

TEST_F(TurnTest, each_change_of_kind_begins_a_run) {
  by_key(1);
  by_handle({1, 2});
  by_handle({3});
  by_key(4);
  by_key(1);
  by_handle({4});
  EXPECT_EQ(runs(), "k1 h3 k5 h1");
}

TEST_F(TurnTest, empty_requests_have_their_place_among_the_runs) {
  by_handle({});
  by_key(0);
  by_key(2);
  by_handle({});
  EXPECT_EQ(runs(), "h0 k2 h0");
  EXPECT_EQ(turn_.requests().size(), 4U);
}

TEST_F(TurnTest, requests_own_consecutive_places_of_all_arrays) {
  by_key(2);
  by_handle({10, 11, 12});
  by_key(1);
  by_handle({13});
  const auto requests = turn_.requests();
  const std::array<bool, 4> kinds = {false, true, false, true};
  const std::array<uint32_t, 4> firsts = {0, 2, 5, 6};
  for (size_t index = 0; index < requests.size(); ++index) {
    EXPECT_EQ(requests[index].by_handle, kinds[index]);
    EXPECT_EQ(requests[index].first_entry, firsts[index]);
    EXPECT_EQ(requests[index].id, index + 1);
  }
  EXPECT_EQ(turn_.handles()[2], 10U);
  EXPECT_EQ(turn_.handles()[4], 12U);
  EXPECT_EQ(turn_.handles()[6], 13U);
  EXPECT_EQ(turn_.entries()[1].cost, 7U);
  EXPECT_EQ(turn_.entries()[5].cost, 7U);
  EXPECT_EQ(turn_.verdicts().size(), 7U);
}

// Stale values of an earlier turn must not show.
TEST_F(TurnTest, clear_leaves_no_stale_requests) {
  by_key(3);
  by_handle({1});
  turn_.clear();
  EXPECT_TRUE(turn_.empty());
  EXPECT_EQ(runs(), "");
  EXPECT_EQ(turn_.add({.by_handle = true}, 3).size(), 3U);
  EXPECT_EQ(runs(), "k3");
  EXPECT_FALSE(turn_.requests()[0].by_handle);
}

TEST_F(TurnTest, overrides_belong_to_their_entries) {
  by_key(1);
  const auto entries = turn_.add({.id = 9}, 3);
  for (api::Entry& entry : entries) entry = {};
  turn_.set_overrides(entries[0], {.max_requests = 5});
  turn_.set_overrides(entries[2], {.window_ms = 60'000});
  EXPECT_EQ(entries[0].overrides(), (api::Overrides{.max_requests = 5}));
  EXPECT_EQ(entries[1].overrides(), api::no_overrides);
  EXPECT_EQ(entries[2].overrides(), (api::Overrides{.window_ms = 60'000}));
}

// The fast path is for entries without any.
TEST_F(TurnTest, overrides_that_keep_everything_are_none) {
  const auto entries = turn_.add({.id = 9}, 1);
  turn_.set_overrides(entries[0], {.max_requests = 5});
  turn_.set_overrides(entries[0], {});
  EXPECT_EQ(entries[0].given_overrides, nullptr);
}

// Those of other shards leave.
TEST_F(TurnTest, entries_that_stay_move_to_the_front_with_their_overrides_and_places) {
  by_key(1);
  const auto entries = turn_.add({.id = 9}, 4);
  for (uint32_t place = 0; place < 4; ++place) {
    entries[place] = {.cost = place};
    turn_.set_overrides(entries[place], {.max_requests = 10 + place});
  }
  turn_.move_in_last(1, 0);
  turn_.move_in_last(3, 1);
  turn_.shrink_last(2);
  by_key(1);
  EXPECT_EQ(runs(), "k4");
  EXPECT_EQ(turn_.requests()[1].entries_count, 2U);
  EXPECT_EQ(turn_.entries()[1].cost, 1U);
  EXPECT_EQ(turn_.entries()[1].overrides(), (api::Overrides{.max_requests = 11}));
  EXPECT_EQ(turn_.entries()[2].cost, 3U);
  turn_.set_overrides(turn_.entries()[3], {.max_requests = 99});  // where one has left
  EXPECT_EQ(turn_.entries()[2].overrides(), (api::Overrides{.max_requests = 13}));
  EXPECT_EQ(turn_.places()[1], 1U);
  EXPECT_EQ(turn_.places()[2], 3U);
}

TEST_F(TurnTest, a_request_leaves_with_its_last_entry_and_its_run) {
  turn_.add({.id = 9}, 2);
  turn_.shrink_last(0);
  EXPECT_TRUE(turn_.empty());
  EXPECT_EQ(runs(), "");
  by_handle({1});
  turn_.add({.id = 9}, 2);
  turn_.shrink_last(0);
  by_handle({2});
  EXPECT_EQ(runs(), "h2");
  by_key(0);
  turn_.add({.id = 9}, 2);
  turn_.shrink_last(0);
  EXPECT_EQ(runs(), "h2 k0");
}

TEST_F(TurnTest, is_full_with_entries_of_both_kinds_together) {
  std::vector<api::Handle> handles(limits::turn_entries / 2);
  std::iota(handles.begin(), handles.end(), 0);
  by_handle(handles);
  by_key(limits::turn_entries / 2 - 1);
  EXPECT_TRUE(turn_.has_room(1));
  EXPECT_FALSE(turn_.has_room(2));
  by_handle({5});
  EXPECT_TRUE(turn_.has_room(0));
  EXPECT_FALSE(turn_.has_room(1));
  EXPECT_EQ(turn_.handles().back(), 5U);
}

TEST_F(TurnTest, is_full_with_runs_of_one_request_each) {
  for (uint32_t request = 0; request < limits::turn_requests; ++request) {
    ASSERT_TRUE(turn_.has_room(1));
    if (request % 2 == 0) {
      by_handle({request});
    } else {
      by_key(1);
    }
  }
  EXPECT_FALSE(turn_.has_room(0));
  EXPECT_EQ(turn_.runs().size(), limits::turn_requests);
}

}  // namespace
}  // namespace sluice::route
