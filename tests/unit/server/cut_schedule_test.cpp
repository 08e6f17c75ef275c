// Goal:   epochs begin one after the other, when they may, and laps when the log has grown.
// Method: a writer that releases epochs when the test says so; time is an argument.
#include "server/cut_schedule.hpp"

#include <gtest/gtest.h>

#include "tests/unit/server/fake_writer.hpp"

namespace sluice::server {
namespace {

constexpr int64_t ms = base::ns_per_ms;
constexpr uint64_t mib = 1 << 20;

class Schedule : public testing::Test {
 protected:
  // All shards hand over, and the writer commits.
  void end_epoch(int64_t took_ns = 0, uint64_t complete_since = 0) {
    for (uint32_t shard = 0; shard < 2; ++shard) {
      schedule_.note_handed_over(shard, {.took_ns = shard == 1 ? took_ns : 0,
                                         .complete_since = complete_since,
                                         .alive_bytes = alive_bytes_of_each_});
    }
    sink_.commit(schedule_.epoch());
  }

  FakeWriter sink_;
  CutSchedule schedule_{sink_, {.shards = 2, .interval_ns = 100 * ms, .last_epoch = 7}};
  int64_t now_ = 1'000 * ms;
  uint64_t alive_bytes_of_each_ = 0;
};

TEST_F(Schedule, the_first_epoch_begins_at_once_behind_the_last_of_the_file) {
  EXPECT_EQ(schedule_.epoch(), 7U);
  EXPECT_LE(schedule_.due_ns(), now_);
  EXPECT_TRUE(schedule_.begin(now_));
  EXPECT_EQ(schedule_.epoch(), 8U);
}

TEST_F(Schedule, the_next_one_waits_for_the_writer_and_the_interval) {
  ASSERT_TRUE(schedule_.begin(now_));
  EXPECT_EQ(schedule_.due_ns(), base::never_ns);
  EXPECT_FALSE(schedule_.begin(now_ + 1'000 * ms));
  end_epoch();
  EXPECT_EQ(schedule_.due_ns(), now_ + 100 * ms);
  EXPECT_FALSE(schedule_.begin(now_ + 100 * ms - 1));
  EXPECT_TRUE(schedule_.begin(now_ + 100 * ms));
  EXPECT_EQ(schedule_.epoch(), 9U);
}

TEST_F(Schedule, handing_over_takes_two_percent_of_the_time_at_most) {
  ASSERT_TRUE(schedule_.begin(now_));
  end_epoch(20 * ms);
  EXPECT_EQ(schedule_.due_ns(), now_ + 1'000 * ms);
  ASSERT_TRUE(schedule_.begin(now_ + 1'000 * ms));
  end_epoch(1 * ms);
  EXPECT_EQ(schedule_.due_ns(), now_ + 1'100 * ms);
}

TEST_F(Schedule, an_epoch_that_is_wanted_begins_earlier) {
  ASSERT_TRUE(schedule_.begin(now_));
  end_epoch(1 * ms);
  EXPECT_FALSE(schedule_.is_wanted());
  schedule_.want(9);
  schedule_.want(8);
  EXPECT_TRUE(schedule_.is_wanted());
  EXPECT_EQ(schedule_.due_ns(), now_ + 10 * ms);
  ASSERT_TRUE(schedule_.begin(now_ + 10 * ms));
  EXPECT_FALSE(schedule_.is_wanted());
  end_epoch(20 * ms);
  schedule_.want(10);
  EXPECT_EQ(schedule_.due_ns(), now_ + 90 * ms) << "callers who put quotas take 25 % at most";
}

TEST_F(Schedule, a_clean_stop_knows_its_last_epoch) {
  ASSERT_TRUE(schedule_.begin(now_));
  EXPECT_EQ(schedule_.end_lap(), 9U);
  EXPECT_FALSE(schedule_.is_last()) << "the present one had begun before";
  end_epoch();
  ASSERT_TRUE(schedule_.begin(now_ + 100 * ms));
  EXPECT_EQ(schedule_.epoch(), 9U);
  EXPECT_TRUE(schedule_.is_last());
}

TEST_F(Schedule, there_is_no_epoch_when_nothing_is_written_any_more) {
  sink_.state.status.store(store::WriterStatus::failed);
  EXPECT_EQ(schedule_.due_ns(), base::never_ns);
  EXPECT_FALSE(schedule_.begin(now_));
  sink_.state.status.store(store::WriterStatus::stopped);
  EXPECT_FALSE(schedule_.begin(now_));
}

TEST_F(Schedule, promises_nothing_while_the_disk_fails_or_hangs) {
  EXPECT_TRUE(schedule_.may_promise(now_));
  ASSERT_TRUE(schedule_.begin(now_));
  EXPECT_TRUE(schedule_.may_promise(now_ + 9'999 * ms));
  EXPECT_FALSE(schedule_.notice_hang(now_ + 9'999 * ms));
  EXPECT_FALSE(schedule_.may_promise(now_ + 10'000 * ms));
  EXPECT_TRUE(schedule_.notice_hang(now_ + 10'000 * ms));
  EXPECT_FALSE(schedule_.notice_hang(now_ + 20'000 * ms)) << "once";
  end_epoch();
  EXPECT_TRUE(schedule_.may_promise(now_ + 60'000 * ms));
  sink_.state.status.store(store::WriterStatus::failing);
  EXPECT_FALSE(schedule_.may_promise(now_));
}

TEST_F(Schedule, a_lap_begins_when_the_log_is_half_as_much_again_as_what_lives) {
  const auto epoch_begins_lap = [this](uint64_t log_bytes, uint64_t complete_since) {
    end_epoch(0, complete_since);
    sink_.state.log_bytes.store(log_bytes);
    now_ += 100 * ms;
    EXPECT_TRUE(schedule_.begin(now_));
    return schedule_.begins_lap();
  };
  ASSERT_TRUE(schedule_.begin(now_));  // 8
  EXPECT_FALSE(schedule_.begins_lap());
  EXPECT_FALSE(epoch_begins_lap(32 * mib - 1, 0));
  EXPECT_TRUE(epoch_begins_lap(32 * mib, 0));  // 10
  EXPECT_FALSE(epoch_begins_lap(500 * mib, 0)) << "it is under way";
  EXPECT_FALSE(epoch_begins_lap(500 * mib, 9)) << "an earlier one has ended";
  alive_bytes_of_each_ = 50 * mib;
  EXPECT_FALSE(epoch_begins_lap(100 * mib, 10)) << "it has ended";
  EXPECT_FALSE(epoch_begins_lap(150 * mib - 1, 10));
  EXPECT_TRUE(epoch_begins_lap(150 * mib, 10));
}

TEST_F(Schedule, knows_how_far_the_file_is_behind) {
  EXPECT_EQ(schedule_.behind_ns(now_), 0);
  EXPECT_TRUE(schedule_.is_committed());
  schedule_.note_changes(now_ - 5 * ms);
  schedule_.note_changes(now_ - 2 * ms);
  EXPECT_EQ(schedule_.behind_ns(now_), 5 * ms) << "since the first change";
  ASSERT_TRUE(schedule_.begin(now_));
  EXPECT_FALSE(schedule_.is_committed());
  schedule_.note_changes(now_ + 10 * ms);
  EXPECT_EQ(schedule_.behind_ns(now_ + 30 * ms), 35 * ms);
  end_epoch();
  EXPECT_TRUE(schedule_.is_committed());
  EXPECT_EQ(schedule_.behind_ns(now_ + 50 * ms), 40 * ms) << "the next epoch has that";
  EXPECT_EQ(schedule_.behind_ns(now_), 0) << "another worker's clock";
}

// Where nothing changes nothing can be lost, however long ago the last cut was.
TEST_F(Schedule, is_behind_since_the_first_change_after_a_time_without_any) {
  ASSERT_TRUE(schedule_.begin(now_));
  end_epoch();
  EXPECT_EQ(schedule_.behind_ns(now_ + 3'600'000 * ms), 0);
  now_ += 3'600'000 * ms;
  schedule_.want(9);
  ASSERT_TRUE(schedule_.begin(now_)) << "without a change, as at the end";
  EXPECT_EQ(schedule_.behind_ns(now_ + 3 * ms), 3 * ms);
  end_epoch();
  EXPECT_EQ(schedule_.behind_ns(now_ + 4 * ms), 0);
}

}  // namespace
}  // namespace sluice::server
