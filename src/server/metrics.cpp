#include "server/metrics.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "api/verdict.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/time.hpp"
#include "text/number.hpp"

namespace sluice::server {
namespace {

class Writer {
 public:
  Writer(std::span<const ShardStatistics> shards, std::string& text) noexcept
      : shards_(shards), text_(text) {}

  // A family with one sample, for the whole process.
  void one(std::string_view name, std::string_view type, std::string_view help,
           uint64_t value) noexcept {
    family(name, type, help);
    add("sluicegate_", name_, " ");
    number(value);
    add("\n");
  }

  void seconds(std::string_view name, std::string_view type, std::string_view help,
               int64_t ns) noexcept {
    family(name, type, help);
    const auto ms = static_cast<uint64_t>(ns / base::ns_per_ms);
    add("sluicegate_", name_, " ");
    number(ms / 1'000);
    add(".");
    for (uint64_t digit = 100; digit > 0; digit /= 10) number(ms / digit % 10);
    add("\n");
  }

  // A sample for the whole process, or a part of it that is no shard.
  void labelled(uint64_t value, std::string_view label, std::string_view content) noexcept {
    add("sluicegate_", name_, "{", label, "=\"", content, "\"} ");
    number(value);
    add("\n");
  }

  // A family with one sample per shard.
  template <typename Value>
  void all(std::string_view name, std::string_view type, std::string_view help,
           Value value) noexcept {
    family(name, type, help);
    for (const ShardStatistics& shard : shards_) sample(shard, value(shard));
  }

  void family(std::string_view name, std::string_view type, std::string_view help) noexcept {
    name_ = name;
    add("# HELP sluicegate_", name, " ", help, "\n# TYPE sluicegate_", name, " ", type, "\n");
  }

  void sample(const ShardStatistics& shard, uint64_t value, std::string_view label = {},
              std::string_view content = {}) noexcept {
    add("sluicegate_", name_, "{shard=\"");
    number(shard.shard_id);
    add("\"");
    if (!label.empty()) add(",", label, "=\"", content, "\"");
    add("} ");
    number(value);
    add("\n");
  }

 private:
  template <typename... Parts>
  void add(Parts... parts) noexcept {
    (text_.append(std::string_view(parts)), ...);
  }
  void number(uint64_t value) noexcept {
    text::DigitBuffer buffer;
    add(text::digits(value, buffer));
  }

  std::span<const ShardStatistics> shards_;
  std::string& text_;
  std::string_view name_;
};

void write_decisions(Writer& write, std::span<const ShardStatistics> shards) noexcept {
  write.family("decisions_total", "counter", "Entries by outcome; a queued one counts again.");
  for (const ShardStatistics& shard : shards) {
    for (uint32_t index = 1; index < api::verdicts_count; ++index) {
      const auto verdict = static_cast<api::Verdict>(index);
      uint64_t count = shard.shard.decisions[index];
      if (verdict == api::Verdict::draining) count += shard.drained_entries;
      if (verdict == api::Verdict::handles_full) count += shard.handles_refused;
      write.sample(shard, count, "outcome", api::verdict_name(verdict));
    }
  }
}

void write_outcomes(Writer& write, std::span<const ShardStatistics> shards,
                    quota::Statistics::Outcomes quota::Statistics::*outcomes) noexcept {
  for (const ShardStatistics& shard : shards) {
    for (uint32_t index = 1; index < api::quota_codes_count; ++index) {
      const auto code = static_cast<api::QuotaCode>(index);
      write.sample(shard, (shard.quota.*outcomes)[index], "outcome", api::code_name(code));
    }
  }
}

void write_quotas(Writer& write, std::span<const ShardStatistics> shards) noexcept {
  write.family("quota_reserves_total", "counter",
               "Reservations asked for, by outcome; a queued one counts again.");
  write_outcomes(write, shards, &quota::Statistics::reserves);
  write.family("quota_consumes_total", "counter",
               "Consumes asked for, by outcome; a queued one counts again.");
  write_outcomes(write, shards, &quota::Statistics::consumes);
  write.all("quota_waited_total", "counter", "Calls admitted after they had waited.",
            [](const ShardStatistics& shard) { return shard.quota.waited; });
  write.all("quota_settled_total", "counter", "Reservations settled.",
            [](const ShardStatistics& shard) { return shard.quota.settled; });
  write.all("quota_cancelled_total", "counter", "Reservations cancelled.",
            [](const ShardStatistics& shard) { return shard.quota.cancelled; });
  write.all("quota_expired_total", "counter", "Reservations that ended with their lifetime.",
            [](const ShardStatistics& shard) { return shard.quota.expired; });
  write.all("quota_recorded_total", "counter", "Usage recorded without asking.",
            [](const ShardStatistics& shard) { return shard.quota.recorded; });
  write.all("quota_tokens_refunded_total", "counter", "Tokens reserved and not used.",
            [](const ShardStatistics& shard) { return shard.quota.tokens_refunded; });
  write.all("quota_unknown_subjects_total", "counter", "Times a subject without a quota was named.",
            [](const ShardStatistics& shard) { return shard.quota.unknown_subjects; });
  write.all("quota_subjects_forgotten_total", "counter", "Idle subjects that were forgotten.",
            [](const ShardStatistics& shard) { return shard.quota.subjects_forgotten; });
}

void write_keys(Writer& write) noexcept {
  write.all("released_total", "counter", "Releases of permits.",
            [](const ShardStatistics& shard) { return shard.shard.released; });
  write.all("keys_expired_total", "counter", "Keys forgotten after three idle windows.",
            [](const ShardStatistics& shard) { return shard.shard.keys_expired; });
  write.all("keys_evicted_total", "counter",
            "Keys past their window that made room in a full table.",
            [](const ShardStatistics& shard) { return shard.shard.keys_evicted; });
}

void write_rules(Writer& write, const ProcessStatistics& process) noexcept {
  write.all("rules_adopted_total", "counter",
            "Changes of the configuration file that the shard applied.",
            [](const ShardStatistics& shard) { return shard.worker.rules_adopted; });
  write.one("rules_refused_total", "counter", "Changes of the configuration file that were bad.",
            process.rules_refused);
}

// The lag is what a crash at this moment would lose. It is 0 only if that is nothing: the clocks of
// two shards, or a millisecond's rounding, must not make it so.
void write_state(Writer& write, std::span<const ShardStatistics> shards,
                 const ProcessStatistics& process) noexcept {
  if (process.state == nullptr) return;
  const store::WriterStatistics& state = *process.state;
  const auto count = [](const store::WriterStatistics::Count& of) {
    return of.load(std::memory_order_relaxed);
  };
  const bool has_changes =
      !process.state_is_committed ||
      std::ranges::any_of(shards, [](const auto& shard) { return shard.has_uncut_changes; });
  write.seconds("state_lag_seconds", "gauge", "What a crash now would lose of the state.",
                has_changes ? std::max(process.state_behind_ns, base::ns_per_ms) : 0);
  int64_t windows_behind_ns = 0;
  for (const ShardStatistics& shard : shards) {
    windows_behind_ns = std::max(windows_behind_ns, shard.windows_behind_ns);
  }
  write.seconds("state_windows_lag_seconds", "gauge",
                "What a crash now would lose of long windows of keys.", windows_behind_ns);
  write.family("state_status", "gauge", "1 for the status of the state's writer.");
  write.labelled(1, "name", store::status_name(state.status.load(std::memory_order_relaxed)));
  write.one("state_commits_total", "counter", "Commits of the state file.",
            count(state.commits_count));
  write.seconds("state_commit_seconds_total", "counter", "Time that they took.",
                static_cast<int64_t>(count(state.commits_ns)));
  write.one("state_records_total", "counter", "Records in them.", count(state.records_count));
  write.one("state_file_bytes", "gauge", "Size of the state file, with its WAL.",
            count(state.file_bytes));
  write.family("state_failures_total", "counter", "Times it was not written, by cause.");
  for (size_t kind = 0; kind < store::failure_kinds_in_use_count; ++kind) {
    write.labelled(count(state.failures[kind]), "kind",
                   store::failure_name(static_cast<store::FailureKind>(kind)));
  }
}

void write_log(Writer& write, const ProcessStatistics& process) noexcept {
  write.one("log_lines_lost_total", "counter",
            "Log lines that newer ones overran (a slow reader), or that could not be written.",
            process.log_lines_lost);
}

void write_connections(Writer& write) noexcept {
  write.all("accepted_total", "counter", "Connections accepted.",
            [](const ShardStatistics& shard) { return shard.worker.accepted; });
  write.all("refused_total", "counter", "Connections refused at --max-connections.",
            [](const ShardStatistics& shard) { return shard.worker.refused; });
  write.all(
      "accept_failures_total", "counter",
      "Times that no connection could be accepted: out of descriptors or memory, or forbidden.",
      [](const ShardStatistics& shard) { return shard.worker.accept_failures; });
  write.all("moved_total", "counter", "Connections handed over to another shard.",
            [](const ShardStatistics& shard) { return shard.worker.moved; });
}

void write_loop(Writer& write, std::span<const ShardStatistics> shards) noexcept {
  write.all("other_shard_entries_total", "counter", "Entries that another shard decided.",
            [](const ShardStatistics& shard) { return shard.other_shard_entries; });
  write.all("wakes_total", "counter", "Times that another, sleeping shard was woken.",
            [](const ShardStatistics& shard) { return shard.wakes; });
  write.all("io_enters_total", "counter", "System calls that submitted or waited.",
            [](const ShardStatistics& shard) { return shard.io.enters; });
  write.all("io_rearms_total", "counter", "Multishot operations that ended by themselves.",
            [](const ShardStatistics& shard) { return shard.io.rearms; });
  write.all("io_buffers_exhausted_total", "counter", "Receives that found no buffer.",
            [](const ShardStatistics& shard) { return shard.io.buffers_exhausted; });
  write.family("io_backend", "gauge", "1 for the back end in use.");
  for (const ShardStatistics& shard : shards) write.sample(shard, 1, "name", shard.io_name);
  write.all("turns_total", "counter", "Iterations of the worker's loop.",
            [](const ShardStatistics& shard) { return shard.worker.turns; });
}

struct NodeFamily {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  uint64_t (*value)(const peer::PeerCounts& counts) noexcept;
};

using Counts = peer::PeerCounts;
constexpr std::array node_families{
    NodeFamily{"node_links", "gauge", "Links to another node that are open.",
               [](const Counts& counts) noexcept { return uint64_t{counts.links_up}; }},
    NodeFamily{"node_links_wanted", "gauge", "Links that this process wants to it.",
               [](const Counts& counts) noexcept { return uint64_t{counts.links_wanted}; }},
    NodeFamily{"node_links_lost_total", "counter", "Links to it that were lost.",
               [](const Counts& counts) noexcept { return counts.links_lost; }},
    NodeFamily{"node_forwarded_total", "counter", "Entries forwarded to it.",
               [](const Counts& counts) noexcept { return counts.forwarded_entries; }},
    NodeFamily{"node_failed_total", "counter", "Entries of it that --peer-failure answered.",
               [](const Counts& counts) noexcept { return counts.failed_entries; }},
    NodeFamily{"node_late_total", "counter", "Entries that it answered after that.",
               [](const Counts& counts) noexcept { return counts.late_answers; }},
    NodeFamily{"node_rules_differ", "gauge", "1: it has other rules than this node.",
               [](const Counts& counts) noexcept { return uint64_t{counts.rules_differ}; }}};

void write_nodes(Writer& write, std::span<const NodeStatistics> nodes,
                 const ProcessStatistics& process) noexcept {
  if (nodes.empty()) return;
  write.one("quotas_to_hand_over", "gauge", "Quotas put at run time that other nodes own now.",
            process.quotas_to_hand_over);
  write.all("misrouted_total", "counter", "Entries of other nodes that this one does not own.",
            [](const ShardStatistics& shard) { return shard.misrouted_entries; });
  write.all("node_calls_dropped_total", "counter",
            "Quota calls owed to other nodes that were dropped for lack of room.",
            [](const ShardStatistics& shard) { return shard.node_calls_dropped; });
  for (const NodeFamily& family : node_families) {
    write.family(family.name, family.type, family.help);
    for (const NodeStatistics& node : nodes) {
      write.labelled(family.value(node.counts), "node", node.node);
    }
  }
}

}  // namespace

void write_metrics(const AllStatistics& all, std::string& text) noexcept {
  const auto& [shards, nodes, process] = all;
  text.clear();
  Writer write(shards, text);
  write.all("keys", "gauge", "Live keys.", [](const ShardStatistics& shard) { return shard.keys; });
  write.all("waiters", "gauge", "Requests waiting in queues.",
            [](const ShardStatistics& shard) { return shard.waiters; });
  write.all("handles", "gauge", "Keys that native clients refer to by number.",
            [](const ShardStatistics& shard) { return shard.handles; });
  write.all("subjects", "gauge", "Subjects of quotas.",
            [](const ShardStatistics& shard) { return shard.subjects; });
  write.all("reservations", "gauge", "Open reservations.",
            [](const ShardStatistics& shard) { return shard.reservations; });
  write.all("quota_waiters", "gauge", "Reservations waiting in queues.",
            [](const ShardStatistics& shard) { return shard.quota_waiters; });
  write.all("connections", "gauge", "Open connections.",
            [](const ShardStatistics& shard) { return shard.connections; });
  write_decisions(write, shards);
  write_keys(write);
  write_quotas(write, shards);
  write_rules(write, process);
  write_log(write, process);
  write_state(write, shards, process);
  write_connections(write);
  write_loop(write, shards);
  write_nodes(write, nodes, process);
  ASSERT(text.size() <= limits::metrics_bytes_max(static_cast<uint32_t>(shards.size()),
                                                  static_cast<uint32_t>(nodes.size()) + 1));
}

}  // namespace sluice::server
