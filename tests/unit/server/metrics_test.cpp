// Goal: the text of /metrics keeps to its bound, behind whatever output may be unsent, and says how
//       far the state file is behind, and why.
// Method: every counter of every shard has all its digits; lines of small texts.
#include "server/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "base/limits.hpp"
#include "base/time.hpp"

namespace sluice::server {
namespace {

size_t largest_text_bytes(uint32_t shards_count, uint32_t nodes_count = 1) {
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
  constexpr uint64_t most = UINT64_MAX;
  const NodeStatistics largest_node{.node = std::string(253, 'n') + ":65535",
                                    .counts = {.links_up = UINT32_MAX,
                                               .links_wanted = UINT32_MAX,
                                               .forwarded_entries = most,
                                               .failed_entries = most,
                                               .late_answers = most,
                                               .links_lost = most,
                                               .rules_differ = UINT32_MAX}};
  const std::vector<NodeStatistics> nodes(nodes_count - 1, largest_node);
  write_metrics({.shards = shards,
                 .nodes = nodes,
                 .process = {.rules_refused = UINT64_MAX,
                             .log_lines_lost = UINT64_MAX,
                             .state = &state,
                             .state_behind_ns = INT64_MAX,
                             .state_is_committed = false}},
                text);
  return text.size();
}

TEST(Metrics, text_of_the_most_shards_has_room_behind_unsent_output) {
  const size_t bytes = largest_text_bytes(limits::shards_max);
  EXPECT_GT(bytes, 2 * limits::reply_bytes_max) << "else all shards need the same room";
  EXPECT_LE(bytes, limits::metrics_bytes_max(limits::shards_max, 1));
  EXPECT_LE(limits::output_high_bytes + limits::http_header_bytes_max + bytes,
            limits::output_bytes(limits::shards_max));
}

TEST(Metrics, text_of_one_shard_keeps_to_its_bound) {
  EXPECT_LE(largest_text_bytes(1), limits::metrics_bytes_max(1, 1));
}

TEST(Metrics, text_of_the_most_nodes_keeps_to_its_bound) {
  const uint32_t nodes = limits::instances_max;
  const size_t bytes = largest_text_bytes(1, nodes);
  EXPECT_LE(bytes, limits::metrics_bytes_max(1, nodes));
  EXPECT_LE(limits::output_high_bytes + limits::http_header_bytes_max + bytes,
            limits::output_bytes(1, nodes));
  EXPECT_LE(largest_text_bytes(1, 2), limits::metrics_bytes_max(1, 2));
}

std::string text_with_lag(bool has_uncut_changes, int64_t behind_ns) {
  ShardStatistics shard;
  shard.io_name = "uring";
  shard.has_uncut_changes = has_uncut_changes;
  const store::WriterStatistics state;
  std::string text;
  write_metrics(
      {.shards = std::span(&shard, 1),
       .nodes = {},
       .process = {.state = &state, .state_behind_ns = behind_ns, .state_is_committed = true}},
      text);
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

// ------------------------------------------------------------------------------------ the state

// The samples whose names begin so, without the lines of help and type.
std::string samples_of(const std::string& prefix, const ProcessStatistics& process,
                       const ShardStatistics& shard = {},
                       std::span<const NodeStatistics> nodes = {}) {
  std::string text;
  write_metrics({.shards = std::span(&shard, 1), .nodes = nodes, .process = process}, text);
  std::istringstream lines(text);
  std::string samples;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(prefix)) samples += line + '\n';
  }
  return samples;
}

TEST(Metrics, say_what_the_writer_of_the_state_has_done) {
  store::WriterStatistics state;
  state.status.store(store::WriterStatus::failing);
  state.commits_count.store(12);
  state.commits_ns.store(3'004'999'999);
  state.records_count.store(345);
  state.file_bytes.store(65'536);
  for (size_t kind = 0; kind < state.failures.size(); ++kind) state.failures[kind].store(kind + 1);
  const ProcessStatistics process{
      .state = &state, .state_behind_ns = 60'250'000'000, .state_is_committed = false};
  const ShardStatistics shard{.windows_behind_ns = 1'500'000'000};
  EXPECT_EQ(samples_of("sluicegate_state_", process, shard),
            "sluicegate_state_lag_seconds 60.250\n"
            "sluicegate_state_windows_lag_seconds 1.500\n"
            "sluicegate_state_status{name=\"failing\"} 1\n"
            "sluicegate_state_commits_total 12\n"
            "sluicegate_state_commit_seconds_total 3.004\n"
            "sluicegate_state_records_total 345\n"
            "sluicegate_state_file_bytes 65536\n"
            "sluicegate_state_failures_total{kind=\"full\"} 1\n"
            "sluicegate_state_failures_total{kind=\"io\"} 2\n"
            "sluicegate_state_failures_total{kind=\"readonly\"} 3\n"
            "sluicegate_state_failures_total{kind=\"busy\"} 4\n"
            "sluicegate_state_failures_total{kind=\"corrupt\"} 5\n"
            "sluicegate_state_failures_total{kind=\"fsync\"} 6\n"
            "sluicegate_state_failures_total{kind=\"moved\"} 7\n");
}

TEST(Metrics, have_no_lag_while_everything_is_in_the_file) {
  const store::WriterStatistics state;
  const auto lag = [&](bool is_committed, bool has_uncut_changes) {
    const ProcessStatistics process{
        .state = &state, .state_behind_ns = 7'000'000, .state_is_committed = is_committed};
    return samples_of("sluicegate_state_lag", process, {.has_uncut_changes = has_uncut_changes});
  };
  EXPECT_EQ(lag(true, false), "sluicegate_state_lag_seconds 0.000\n");
  EXPECT_EQ(lag(true, true), "sluicegate_state_lag_seconds 0.007\n");
  EXPECT_EQ(lag(false, false), "sluicegate_state_lag_seconds 0.007\n");
}

// ------------------------------------------------------------------------------- other nodes

TEST(Metrics, say_how_it_stands_with_each_other_node) {
  const std::vector<NodeStatistics> nodes{{.node = "10.0.0.1:8080",
                                           .counts = {.links_up = 7,
                                                      .links_wanted = 8,
                                                      .forwarded_entries = 1'000,
                                                      .failed_entries = 20,
                                                      .late_answers = 3,
                                                      .links_lost = 1,
                                                      .rules_differ = 1}},
                                          {.node = "b:80", .counts = {.links_wanted = 2}}};
  EXPECT_EQ(samples_of("sluicegate_node_", {}, {}, nodes),
            "sluicegate_node_calls_dropped_total{shard=\"0\"} 0\n"
            "sluicegate_node_links{node=\"10.0.0.1:8080\"} 7\n"
            "sluicegate_node_links{node=\"b:80\"} 0\n"
            "sluicegate_node_links_wanted{node=\"10.0.0.1:8080\"} 8\n"
            "sluicegate_node_links_wanted{node=\"b:80\"} 2\n"
            "sluicegate_node_links_lost_total{node=\"10.0.0.1:8080\"} 1\n"
            "sluicegate_node_links_lost_total{node=\"b:80\"} 0\n"
            "sluicegate_node_forwarded_total{node=\"10.0.0.1:8080\"} 1000\n"
            "sluicegate_node_forwarded_total{node=\"b:80\"} 0\n"
            "sluicegate_node_failed_total{node=\"10.0.0.1:8080\"} 20\n"
            "sluicegate_node_failed_total{node=\"b:80\"} 0\n"
            "sluicegate_node_late_total{node=\"10.0.0.1:8080\"} 3\n"
            "sluicegate_node_late_total{node=\"b:80\"} 0\n"
            "sluicegate_node_rules_differ{node=\"10.0.0.1:8080\"} 1\n"
            "sluicegate_node_rules_differ{node=\"b:80\"} 0\n");
  EXPECT_EQ(samples_of("sluicegate_misrouted_", {}, {.shard_id = 1, .misrouted_entries = 5}, nodes),
            "sluicegate_misrouted_total{shard=\"1\"} 5\n");
  EXPECT_EQ(
      samples_of("sluicegate_node_calls_", {}, {.shard_id = 1, .node_calls_dropped = 6}, nodes),
      "sluicegate_node_calls_dropped_total{shard=\"1\"} 6\n");
}

TEST(Metrics, are_silent_about_nodes_of_a_server_without_a_list) {
  EXPECT_EQ(samples_of("sluicegate_node_", {}), "");
  EXPECT_EQ(samples_of("sluicegate_misrouted_", {}), "");
}

TEST(Metrics, are_silent_about_a_state_that_nobody_keeps) {
  EXPECT_EQ(samples_of("sluicegate_state_", {}), "");
}

}  // namespace
}  // namespace sluice::server
