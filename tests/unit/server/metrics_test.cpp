// Goal: the text of /metrics keeps to its bound, behind whatever output may be unsent.
// Method: every counter of every shard has all its digits.
#include "server/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/limits.hpp"
#include "base/time.hpp"

namespace sluice::server {
namespace {

size_t largest_text_bytes(uint32_t shards_count) {
  static_assert(std::is_trivially_copyable_v<ShardStatistics>);
  ShardStatistics largest;
  std::ranges::fill(std::as_writable_bytes(std::span(&largest, 1)), std::byte{0xFF});
  largest.io_name = "uring";
  largest.shard_id = limits::shards_max - 1;
  largest.drained_entries = largest.handles_refused = 0;  // they add to others
  std::string text;
  const std::vector<ShardStatistics> shards(shards_count, largest);
  store::WriterStatistics state;
  for (store::WriterStatistics::Count* const count :
       {&state.commits_count, &state.commits_ns, &state.records_count, &state.file_bytes}) {
    count->store(UINT64_MAX >> 1);
  }
  for (store::WriterStatistics::Count& count : state.failures) count.store(UINT64_MAX);
  write_metrics(shards,
                {.rules_refused = UINT64_MAX,
                 .log_lines_lost = UINT64_MAX,
                 .state = &state,
                 .state_behind_ns = INT64_MAX,
                 .state_is_committed = false},
                text);
  return text.size();
}

TEST(Metrics, text_of_the_most_shards_has_room_behind_unsent_output) {
  const size_t bytes = largest_text_bytes(limits::shards_max);
  EXPECT_GT(bytes, 2 * limits::reply_bytes_max) << "else all shards need the same room";
  EXPECT_LE(bytes, limits::metrics_bytes_max(limits::shards_max));
  EXPECT_LE(limits::output_high_bytes + limits::http_header_bytes_max + bytes,
            limits::output_bytes(limits::shards_max));
}

TEST(Metrics, text_of_one_shard_keeps_to_its_bound) {
  EXPECT_LE(largest_text_bytes(1), limits::metrics_bytes_max(1));
}

std::string text_with_lag(bool has_uncut_changes, int64_t behind_ns) {
  ShardStatistics shard;
  shard.io_name = "uring";
  shard.has_uncut_changes = has_uncut_changes;
  const store::WriterStatistics state;
  std::string text;
  write_metrics(std::span(&shard, 1),
                {.state = &state, .state_behind_ns = behind_ns, .state_is_committed = true}, text);
  return text;
}

TEST(Metrics, no_lag_is_shown_only_if_nothing_would_be_lost) {
  const auto has = [](const std::string& text, const std::string& value) {
    return text.find("\nsluicegate_state_lag_seconds " + value + "\n") != std::string::npos;
  };
  EXPECT_TRUE(has(text_with_lag(false, 5 * base::ns_per_s), "0.000"));
  EXPECT_TRUE(has(text_with_lag(true, 0), "0.001"));
  EXPECT_TRUE(has(text_with_lag(true, 20'000), "0.001"));
  EXPECT_TRUE(has(text_with_lag(true, 1'234 * base::ns_per_ms), "1.234"));
}

}  // namespace
}  // namespace sluice::server
