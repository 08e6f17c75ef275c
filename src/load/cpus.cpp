#include "load/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace sluice::load {

std::vector<int> allowed_cpus() {
  cpu_set_t before;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof before, &before) != 0) return {};
  CPU_ZERO(&set);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(static_cast<size_t>(cpu), &set);
  // The kernel cuts the set down to what this process may use.
  const bool is_wide =
      sched_setaffinity(0, sizeof set, &set) == 0 && sched_getaffinity(0, sizeof set, &set) == 0;
  sched_setaffinity(0, sizeof before, &before);
  if (!is_wide) set = before;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string cpus_text(std::span<const int> cpus) {
  std::string text;
  for (size_t first = 0, last = 0; first < cpus.size(); first = ++last) {
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(cpus[first]);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(cpus[last]);
  }
  return text;
}

void check_cpus(const std::string& flag, std::span<const int> cpus, std::span<const int> allowed) {
  for (const int cpu : cpus) {
    if (std::ranges::find(allowed, cpu) != allowed.end()) continue;
    throw std::runtime_error(flag + " " + std::to_string(cpu) +
                             ": there is no such CPU, or this process may not use it; it may use " +
                             cpus_text(allowed));
  }
}

bool set_affinity(std::span<const int> cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) {
      errno = EINVAL;
      return false;
    }
    CPU_SET(static_cast<size_t>(cpu), &set);
  }
  // The kernel ignores cores that do not exist, as long as one exists.
  cpu_set_t got;
  if (sched_setaffinity(0, sizeof set, &set) != 0 || sched_getaffinity(0, sizeof got, &got) != 0) {
    return false;
  }
  errno = EINVAL;
  return CPU_EQUAL(&set, &got);
}

}  // namespace sluice::load
