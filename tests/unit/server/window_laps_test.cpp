// Goal:   a lap comes to every position once, in shares as its time passes; what the file has of
//         calls is never said to be more than it is.
// Method: times of the test's choosing; random cuts beside a list of when each position was written
//         last.
#include "server/window_laps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/property/seeds.hpp"

namespace sluice::server {
namespace {

constexpr int64_t second = base::ns_per_s;

TEST(WindowLaps, come_to_every_position_once_in_shares) {
  WindowLaps laps;
  laps.skip(0);
  uint64_t covered = 0;
  for (uint64_t cut = 1; cut <= 7; ++cut) {
    laps.begin_cut(cut);
    laps.begin_share(static_cast<int64_t>(cut) * second, false);
    EXPECT_EQ(laps.cursor(), covered);
    EXPECT_TRUE(laps.has_share());
    EXPECT_NEAR(static_cast<double>(laps.share_end() - covered),
                static_cast<double>(shard::positions_end) / 7, 10);
    covered = laps.share_end();
    laps.move(covered, 0);
  }
  EXPECT_EQ(covered, shard::positions_end);
  EXPECT_FALSE(laps.is_under_way());
  EXPECT_EQ(laps.complete_since_epoch(), 1U);
  EXPECT_EQ(laps.next_share_ns(), 8 * second);
}

TEST(WindowLaps, supersede_nothing_before_they_are_complete) {
  WindowLaps laps;
  laps.begin_cut(5);
  laps.begin_share(second, false);
  laps.move(laps.share_end(), 0);
  EXPECT_EQ(laps.complete_since_epoch(), 0U);
  laps.begin_cut(6);
  EXPECT_FALSE(laps.has_share());
  laps.begin_cut(7);
  laps.begin_share(2 * second, true);
  EXPECT_EQ(laps.cursor(), 0U) << "a whole lap begins anew";
  laps.move(laps.share_end(), 0);
  EXPECT_EQ(laps.complete_since_epoch(), 7U);
}

TEST(WindowLaps, last_longer_where_they_take_much_of_the_threads_time) {
  WindowLaps laps;
  laps.begin_cut(1);
  laps.begin_share(0, false);
  laps.move(laps.share_end(), second / 2);
  laps.begin_cut(2);
  laps.begin_share(6 * second, false);
  laps.move(laps.share_end(), second / 2);
  EXPECT_EQ(laps.next_share_ns(), 33 * second);
}

TEST(WindowLaps, go_on_soon_after_one_that_was_written_at_once) {
  WindowLaps laps;
  laps.begin_cut(1);
  laps.begin_share(0, true);
  laps.move(laps.share_end(), 0);
  EXPECT_EQ(laps.next_share_ns(), second) << "else its last keys would wait for two laps";
}

// When each of some positions was written last, in all cuts and in those before the last one.
class Model {
 public:
  static constexpr uint64_t step = shard::positions_end / 64;

  void begin_cut() { before_ = written_; }
  void write(uint64_t begin, uint64_t end, int64_t now_ns) {
    for (uint64_t at = 0; at < written_.size(); ++at) {
      if (at * step >= begin && at * step < end) written_[at] = now_ns;
    }
  }
  void write_all(int64_t now_ns) {
    written_.fill(now_ns);
    before_.fill(now_ns);
  }
  int64_t earliest(bool with_last) const {
    const auto& times = with_last ? written_ : before_;
    return *std::ranges::min_element(times);
  }

 private:
  std::array<int64_t, 64> written_{};
  std::array<int64_t, 64> before_{};
};

TEST(WindowLaps, never_say_that_the_file_has_more_than_it_has) {
  for (const uint64_t seed : property_seeds(200)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Dice dice(seed);
    WindowLaps laps;
    Model model;
    int64_t now_ns = static_cast<int64_t>(dice.below(1'000)) * second;
    laps.skip(now_ns);
    model.write_all(now_ns);
    for (uint64_t cut = 1; cut <= 200; ++cut) {
      now_ns += dice.between(0, 3) * second + dice.between(0, second);
      laps.begin_cut(cut);
      model.begin_cut();
      if (now_ns >= laps.next_share_ns()) laps.begin_share(now_ns, dice.percent(5));
      model.write(laps.cursor(), laps.share_end(), now_ns);
      if (laps.has_share()) laps.move(laps.share_end(), dice.between(0, second / 4));
      for (const bool with_last : {true, false}) {
        ASSERT_LE(laps.has_until_ns(with_last), model.earliest(with_last)) << cut;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::server
