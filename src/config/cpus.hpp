// How many cores this process may use: by its affinity, and by the CPU quota of its cgroups.
// Flow:   sched_getaffinity, /proc/self/cgroup, /sys/fs/cgroup -> usable_cpus() -> --shards, --pin.
// Shape:  cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us by cpu.cfs_period_us), of the process's
//         group and of every group above it. cpusets need no check: the affinity shows them.
// Errors: an unreadable or unknown text does not limit.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::config {

struct UsableCpus {
  std::vector<int> numbers;       // that threads may be put on, ascending; at least one
  std::optional<uint32_t> quota;  // whole CPUs' worth of time, at least 1; nothing: no quota

  // How many threads can be busy all the time.
  uint32_t count() const noexcept;

  bool operator==(const UsableCpus&) const = default;
};

// The CPUs and the quota of this process.
UsableCpus usable_cpus();

// The CPUs of the affinity; of the calling thread, before it is pinned.
std::vector<int> affinity_cpus();

// The tightest quota that holds for the groups in `membership` (the text of /proc/self/cgroup),
// rounded down, with the cgroup file systems mounted below `root` (/sys/fs/cgroup).
std::optional<uint32_t> cgroup_quota(std::string_view membership, const std::string& root);

// "max 100000" or "150000 100000", as cpu.max has it, in whole CPUs.
std::optional<uint32_t> parse_cpu_max(std::string_view text);

}  // namespace sluice::config
