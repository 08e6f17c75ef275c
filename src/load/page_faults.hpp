// Page faults of another process, or of one thread: time that the kernel takes, not the code.
// Flow:   /proc/PID/stat, or /proc/self/task/TID/stat, before and after a run -> the difference.
// Errors: nullopt when there is no such file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::load {

struct PageFaults {
  uint64_t minor = 0;  // the kernel had the page, or made an empty one
  uint64_t major = 0;  // the page was read from a disk

  PageFaults operator-(const PageFaults& before) const noexcept {
    return {.minor = minor - before.minor, .major = major - before.major};
  }
};

// Those since the process or thread began.
std::optional<PageFaults> read_page_faults(const std::string& stat_file);

// Those of all threads of a process.
std::optional<PageFaults> page_faults_of(pid_t pid);

}  // namespace sluice::load
