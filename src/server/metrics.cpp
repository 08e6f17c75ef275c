#include "server/metrics.hpp"

#include <charconv>
#include <string_view>

#include "api/verdict.hpp"
#include "base/assert.hpp"

namespace sluice::server {
namespace {

class Writer {
 public:
  Writer(std::span<const Census> cores, std::string& text) noexcept : cores_(cores), text_(text) {}

  // Of the whole process.
  void one(std::string_view name, std::string_view type, std::string_view help,
           uint64_t value) noexcept {
    family(name, type, help);
    add("sluicegate_", name_, " ");
    number(value);
    add("\n");
  }

  // A family with one sample per core.
  template <typename Value>
  void all(std::string_view name, std::string_view type, std::string_view help,
           Value value) noexcept {
    family(name, type, help);
    for (const Census& core : cores_) sample(core, value(core));
  }

  void family(std::string_view name, std::string_view type, std::string_view help) noexcept {
    name_ = name;
    add("# HELP sluicegate_", name, " ", help, "\n# TYPE sluicegate_", name, " ", type, "\n");
  }

  void sample(const Census& core, uint64_t value, std::string_view label = {},
              std::string_view content = {}) noexcept {
    add("sluicegate_", name_, "{shard=\"");
    number(core.shard_id);
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
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    add(std::string_view(digits, static_cast<size_t>(end - digits)));
  }

  std::span<const Census> cores_;
  std::string& text_;
  std::string_view name_;
};

void write_decisions(Writer& write, std::span<const Census> cores) noexcept {
  write.family("decisions_total", "counter", "Entries by outcome; a queued one counts again.");
  for (const Census& core : cores) {
    for (uint32_t index = 1; index < api::verdicts_count; ++index) {
      const auto verdict = static_cast<api::Verdict>(index);
      uint64_t count = core.shard.decisions[index];
      if (verdict == api::Verdict::draining) count += core.drained_entries;
      if (verdict == api::Verdict::handles_full) count += core.handles_refused;
      write.sample(core, count, "outcome", api::verdict_name(verdict));
    }
  }
}

void write_quotas(Writer& write, std::span<const Census> cores) noexcept {
  write.family("quota_reserves_total", "counter",
               "Reservations asked for, by outcome; a queued one counts again.");
  for (const Census& core : cores) {
    for (uint32_t index = 1; index < api::quota_codes_count; ++index) {
      const auto code = static_cast<api::QuotaCode>(index);
      write.sample(core, core.quota.reserves[index], "outcome", api::code_name(code));
    }
  }
  write.all("quota_waited_total", "counter", "Reservations admitted after they had waited.",
            [](const Census& core) { return core.quota.waited; });
  write.all("quota_settled_total", "counter", "Reservations settled.",
            [](const Census& core) { return core.quota.settled; });
  write.all("quota_cancelled_total", "counter", "Reservations cancelled.",
            [](const Census& core) { return core.quota.cancelled; });
  write.all("quota_expired_total", "counter", "Reservations whose lifetime ended.",
            [](const Census& core) { return core.quota.expired; });
  write.all("quota_recorded_total", "counter", "Usage recorded without asking.",
            [](const Census& core) { return core.quota.recorded; });
  write.all("quota_tokens_refunded_total", "counter", "Tokens reserved and not used.",
            [](const Census& core) { return core.quota.tokens_refunded; });
  write.all("quota_unknown_subjects_total", "counter", "Times a subject without a quota was named.",
            [](const Census& core) { return core.quota.unknown_subjects; });
  write.all("quota_subjects_forgotten_total", "counter", "Idle subjects that were forgotten.",
            [](const Census& core) { return core.quota.subjects_forgotten; });
}

void write_keys(Writer& write) noexcept {
  write.all("released_total", "counter", "Releases of permits.",
            [](const Census& core) { return core.shard.released; });
  write.all("keys_expired_total", "counter", "Keys forgotten after three idle windows.",
            [](const Census& core) { return core.shard.keys_expired; });
  write.all("keys_evicted_total", "counter",
            "Keys past their window that made room in a full table.",
            [](const Census& core) { return core.shard.keys_evicted; });
}

void write_rules(Writer& write, const ProcessCensus& process) noexcept {
  write.all("rules_adopted_total", "counter", "Changes of the policy file that hold here.",
            [](const Census& core) { return core.worker.rules_adopted; });
  write.one("rules_refused_total", "counter", "Changes of the policy file that were bad.",
            process.rules_refused);
}

void write_log(Writer& write, const ProcessCensus& process) noexcept {
  write.one("log_lines_lost_total", "counter",
            "Log lines that newer ones overran (a slow reader), or that could not be written.",
            process.log_lines_lost);
}

void write_connections(Writer& write) noexcept {
  write.all("accepted_total", "counter", "Connections accepted.",
            [](const Census& core) { return core.worker.accepted; });
  write.all("refused_total", "counter", "Connections refused at --max-connections.",
            [](const Census& core) { return core.worker.refused; });
  write.all("accept_failures_total", "counter",
            "Times that no connection could be accepted: out of descriptors or memory.",
            [](const Census& core) { return core.worker.accept_failures; });
  write.all("moved_total", "counter", "Connections handed over to another shard.",
            [](const Census& core) { return core.worker.moved; });
}

void write_loop(Writer& write, std::span<const Census> cores) noexcept {
  write.all("crossings_total", "counter", "Entries that another shard decided.",
            [](const Census& core) { return core.crossings; });
  write.all("wakes_total", "counter", "Times that another, sleeping shard was woken.",
            [](const Census& core) { return core.wakes; });
  write.all("io_enters_total", "counter", "System calls that submitted or waited.",
            [](const Census& core) { return core.io.enters; });
  write.all("io_rearms_total", "counter", "Multishot operations that ended by themselves.",
            [](const Census& core) { return core.io.rearms; });
  write.all("io_buffers_exhausted_total", "counter", "Receives that found no buffer.",
            [](const Census& core) { return core.io.buffers_exhausted; });
  write.family("io_backend", "gauge", "1 for the back end in use.");
  for (const Census& core : cores) write.sample(core, 1, "name", core.io_name);
  write.all("turns_total", "counter", "Loop turns.",
            [](const Census& core) { return core.worker.turns; });
}

}  // namespace

void write_metrics(std::span<const Census> cores, const ProcessCensus& process,
                   std::string& text) noexcept {
  text.clear();
  Writer write(cores, text);
  write.all("keys", "gauge", "Live keys.", [](const Census& core) { return core.keys; });
  write.all("waiters", "gauge", "Requests waiting in line.",
            [](const Census& core) { return core.waiters; });
  write.all("handles", "gauge", "Keys that native clients refer to by number.",
            [](const Census& core) { return core.handles; });
  write.all("subjects", "gauge", "Subjects of quotas.",
            [](const Census& core) { return core.subjects; });
  write.all("reservations", "gauge", "Open reservations.",
            [](const Census& core) { return core.reservations; });
  write.all("quota_waiters", "gauge", "Reservations waiting in line.",
            [](const Census& core) { return core.quota_waiters; });
  write.all("connections", "gauge", "Open connections.",
            [](const Census& core) { return core.connections; });
  write_decisions(write, cores);
  write_keys(write);
  write_quotas(write, cores);
  write_rules(write, process);
  write_log(write, process);
  write_connections(write);
  write_loop(write, cores);
  ASSERT(text.size() <= metrics_bytes_max(static_cast<uint32_t>(cores.size())));
}

}  // namespace sluice::server
