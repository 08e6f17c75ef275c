#include "server/metrics.hpp"

#include <charconv>
#include <string_view>

#include "api/verdict.hpp"
#include "base/assert.hpp"
#include "server/worker.hpp"

namespace sluice::server {
namespace {

class Writer {
 public:
  Writer(std::string& text, uint32_t shard_id) noexcept : text_(text), shard_id_(shard_id) {}

  void family(std::string_view name, std::string_view type, std::string_view help) noexcept {
    name_ = name;
    add("# HELP sluicegate_", name, " ", help, "\n# TYPE sluicegate_", name, " ", type, "\n");
  }

  void sample(uint64_t value, std::string_view label = {}, std::string_view content = {}) noexcept {
    add("sluicegate_", name_, "{shard=\"");
    number(shard_id_);
    add("\"");
    if (!label.empty()) add(",", label, "=\"", content, "\"");
    add("} ");
    number(value);
    add("\n");
  }

  void single(std::string_view name, std::string_view type, std::string_view help,
              uint64_t value) noexcept {
    family(name, type, help);
    sample(value);
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

  std::string& text_;
  std::string_view name_;
  uint32_t shard_id_;
};

void write_decisions(Writer& write, const MetricsSource& source) noexcept {
  write.family("decisions_total", "counter", "Entries by outcome; a queued one counts again.");
  for (uint32_t index = 1; index < api::verdicts_count; ++index) {
    const auto verdict = static_cast<api::Verdict>(index);
    uint64_t count = source.shard.statistics().decisions[index];
    if (verdict == api::Verdict::draining) count += source.drained_entries;
    write.sample(count, "outcome", api::verdict_name(verdict));
  }
}

}  // namespace

void write_metrics(const MetricsSource& source, std::string& text) noexcept {
  text.clear();
  Writer write(text, source.shard_id);
  const shard::Statistics& shard = source.shard.statistics();
  write.single("keys", "gauge", "Live keys.", source.shard.keys_count());
  write.single("waiters", "gauge", "Requests waiting in line.", source.shard.waiters_count());
  write.single("connections", "gauge", "Open connections.", source.connections);
  write_decisions(write, source);
  write.single("released_total", "counter", "Releases of permits.", shard.released);
  write.single("keys_expired_total", "counter", "Keys forgotten after three idle windows.",
               shard.keys_expired);
  write.single("keys_evicted_total", "counter",
               "Keys past their window that made room in a full table.", shard.keys_evicted);
  write.single("accepted_total", "counter", "Connections accepted.", source.worker.accepted);
  write.single("refused_total", "counter", "Connections refused at --max-connections.",
               source.worker.refused);
  write.single("accept_failures_total", "counter",
               "Times that no connection could be accepted: out of descriptors or memory.",
               source.worker.accept_failures);
  const io::Statistics& io = source.io.statistics();
  write.single("io_enters_total", "counter", "System calls that submitted or waited.", io.enters);
  write.single("io_rearms_total", "counter", "Multishot operations that ended by themselves.",
               io.rearms);
  write.single("io_buffers_exhausted_total", "counter", "Receives that found no buffer.",
               io.buffers_exhausted);
  write.family("io_backend", "gauge", "1 for the back end in use.");
  write.sample(1, "name", source.io.name());
  write.single("turns_total", "counter", "Loop turns.", source.worker.turns);
  ASSERT(text.size() <= metrics_bytes_max);
}

}  // namespace sluice::server
