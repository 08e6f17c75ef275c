// What must happen in the runs of the test, to be counted.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::simulation {

enum class NodeQuotaEvent : uint8_t {
  reserved,
  bound,
  consumed,
  recorded,
  checked,
  extended,
  not_extended,
  settled,
  queued,
  granted,
  unreachable,
  repeated,
  by_rest,
  spread,
  waiting_spread,
  granted_spread,
  cut,
  paused,
  crashed,
  reset,
  kept,
  restored,
  disk_failed,
  between,
  exact,
  ended_again,
  ended_disturbed,
  ended_after_start,
  part_missed,
  // Not in each run of the test.
  probed,
};
inline constexpr std::array<std::string_view, 30> node_quota_event_names = {
    "reserved",
    "bound",
    "consumed",
    "recorded",
    "checked",
    "extended",
    "not extended",
    "ended",
    "queued",
    "granted",
    "unreachable",
    "repeated",
    "answered over REST",
    "over several nodes",
    "queued over several nodes",
    "granted over several nodes",
    "cuts",
    "pauses",
    "crashes",
    "resets",
    "crashes of nodes with a state",
    "reservations loaded",
    "failures of disks",
    "usage between two numbers",
    "usage known exactly",
    "ends asked for again",
    "ended over several nodes while something was disturbed",
    "ended over several nodes after another start of the home",
    "not extended because of a part",
    "asked whether an extension that failed has none",
};
inline constexpr size_t often_events_count = static_cast<size_t>(NodeQuotaEvent::probed);

class NodeQuotaCounts {
 public:
  void note(NodeQuotaEvent event, uint64_t times = 1) {
    counts_[static_cast<size_t>(event)] += times;
  }
  uint64_t of(size_t event) const { return counts_[event]; }
  NodeQuotaCounts& operator+=(const NodeQuotaCounts& other) {
    for (size_t event = 0; event < counts_.size(); ++event) counts_[event] += other.counts_[event];
    return *this;
  }

 private:
  std::array<uint64_t, node_quota_event_names.size()> counts_{};
};

}  // namespace sluice::simulation
