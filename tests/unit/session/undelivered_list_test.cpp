// Goal: reservations of unsent replies are found by send and by position in it, within the given
//       memory.
// Method: a list of a few replies; then as many as a connection's output can hold, and more.
#include "session/undelivered_list.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/limits.hpp"

namespace sluice::session {
namespace {

using Reservations = std::vector<uint64_t>;

class UndeliveredListTest : public ::testing::Test {
 protected:
  void add(uint64_t send, size_t end_bytes, const Reservations& reservations) {
    list_.add(send, end_bytes, reservations);
  }
  Reservations behind(uint64_t send, size_t taken_bytes) const {
    const auto found = list_.behind(send, taken_bytes);
    return {found.begin(), found.end()};
  }

  std::vector<uint64_t> first_ = std::vector<uint64_t>(limits::undelivered_words);
  std::vector<uint64_t> second_ = std::vector<uint64_t>(limits::undelivered_words);
  UndeliveredList list_{{std::span(first_), std::span(second_)}};
};

TEST_F(UndeliveredListTest, finds_reservations_of_unsent_replies) {
  add(4, 100, {70});
  add(4, 250, {71, 72});
  add(5, 90, {73});
  EXPECT_EQ(behind(4, 0), (Reservations{70, 71, 72}));
  EXPECT_EQ(behind(4, 99), (Reservations{70, 71, 72}));
  EXPECT_EQ(behind(4, 100), (Reservations{71, 72}));
  EXPECT_EQ(behind(4, 249), (Reservations{71, 72}));
  EXPECT_EQ(behind(4, 250), Reservations{});
  EXPECT_EQ(behind(5, 0), Reservations{73});
}

TEST_F(UndeliveredListTest, finds_nothing_of_other_sends) {
  EXPECT_EQ(behind(1, 0), Reservations{});
  add(4, 100, {70});
  EXPECT_EQ(behind(2, 0), Reservations{});
  EXPECT_EQ(behind(3, 0), Reservations{});
  EXPECT_EQ(behind(6, 0), Reservations{});
}

TEST_F(UndeliveredListTest, skips_entries_without_reservation) {
  add(1, 100, {0, 0});
  add(1, 200, {0, 70, 0});
  add(1, 300, {});
  EXPECT_EQ(behind(1, 0), Reservations{70});
  EXPECT_EQ(behind(1, 200), Reservations{});
}

TEST_F(UndeliveredListTest, forgets_a_send_when_the_next_but_one_is_written) {
  add(4, 100, {70, 71});
  add(5, 100, {72});
  add(6, 50, {73});
  EXPECT_EQ(behind(4, 0), Reservations{});
  EXPECT_EQ(behind(5, 0), Reservations{72});
  EXPECT_EQ(behind(6, 0), Reservations{73});
}

// A session reads requests until output_high_bytes are written, and then answers one more frame. A
// reservation takes 8 bytes of its frame, the frame's head takes more.
TEST_F(UndeliveredListTest, has_room_for_all_unsent_replies_of_a_connection) {
  constexpr size_t frame_bytes = 8 + 8;
  uint64_t reservation = 0;
  size_t end_bytes = 0;
  while (end_bytes < limits::output_high_bytes) add(1, end_bytes += frame_bytes, {++reservation});
  Reservations granted(limits::frame_entries_max);
  std::iota(granted.begin(), granted.end(), reservation + 1);
  add(1, end_bytes + 8 * granted.size(), granted);
  EXPECT_EQ(behind(1, 0).size(), reservation + granted.size());
  EXPECT_EQ(behind(1, end_bytes - frame_bytes).front(), reservation);
  EXPECT_EQ(behind(1, end_bytes), granted);
}

TEST_F(UndeliveredListTest, drops_reservations_without_room) {
  Reservations many(limits::undelivered_words + 10);
  std::iota(many.begin(), many.end(), 1);
  add(1, 100, many);
  add(1, 200, {7});
  const Reservations kept = behind(1, 0);
  EXPECT_EQ(kept.size(), limits::undelivered_words - 1);
  EXPECT_EQ(kept.back(), kept.size());
  EXPECT_EQ(behind(1, 100), Reservations{});
}

}  // namespace
}  // namespace sluice::session
