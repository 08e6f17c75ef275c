#include "config/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>

#include "text/number.hpp"

namespace sluice::config {
namespace {

using Quota = std::optional<uint32_t>;

// Empty when there is no such file.
std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The text up to `separator`, which is taken off `rest` together with it; all of it if there is
// none.
std::string_view take_until(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  return taken;
}

std::optional<int64_t> parse_number(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text::parse_whole<int64_t>(text);
}

// Part of a CPU still runs one worker.
Quota whole_cpus(std::optional<int64_t> quota_us, std::optional<int64_t> period_us) {
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return static_cast<uint32_t>(std::clamp<int64_t>(*quota_us / *period_us, 1, UINT32_MAX));
}

Quota tighter(Quota one, Quota other) {
  if (!one || !other) return one ? one : other;
  return std::min(*one, *other);
}

Quota quota_v2(const std::string& folder) {
  return parse_cpu_max(read_text(folder + "/cpu.max"));
}

Quota quota_v1(const std::string& folder) {
  return whole_cpus(parse_number(read_text(folder + "/cpu.cfs_quota_us")),
                    parse_number(read_text(folder + "/cpu.cfs_period_us")));
}

// Reads the group's folder and all above it, the mount itself included. In a container the
// upper part of `group` may not be mounted, or all of it: then only the mount has files.
Quota tightest(const std::string& mount, std::string_view group,
               Quota (*quota_of)(const std::string&)) {
  if (group.find("..") != group.npos) group = {};  // a group outside of what is mounted here
  Quota found;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.remove_suffix(1);
    found = tighter(found, quota_of(mount + std::string(group)));
    if (group.empty()) return found;
    group = group.substr(0, group.rfind('/') + 1);
  }
}

// "cpu,cpuacct" has "cpu".
bool has_cpu_controller(std::string_view controllers) {
  while (!controllers.empty()) {
    if (take_until(controllers, ',') == "cpu") return true;
  }
  return false;
}

}  // namespace

uint32_t UsableCpus::count() const noexcept {
  const auto allowed = static_cast<uint32_t>(std::max<size_t>(numbers.size(), 1));
  return std::min(allowed, quota.value_or(allowed));
}

UsableCpus usable_cpus() {
  return {.numbers = affinity_cpus(),
          .quota = cgroup_quota(read_text("/proc/self/cgroup"), "/sys/fs/cgroup")};
}

std::vector<int> affinity_cpus() {
  // The kernel refuses a set smaller than its own, and does not report that size.
  for (int bits = 1'024; bits <= 1 << 20; bits *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(bits), [](cpu_set_t* allocated) { CPU_FREE(allocated); });
    const size_t bytes = CPU_ALLOC_SIZE(bits);
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> numbers;
    for (int cpu = 0; cpu < bits; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) numbers.push_back(cpu);
    }
    return numbers;
  }
  return {0};
}

std::optional<uint32_t> cgroup_quota(std::string_view membership, const std::string& root) {
  Quota found;
  while (!membership.empty()) {
    // "0::/group" is version 2, "4:cpu,cpuacct:/group" is version 1.
    std::string_view group = take_until(membership, '\n');
    const std::string_view hierarchy = take_until(group, ':');
    const std::string controllers(take_until(group, ':'));
    if (hierarchy == "0" && controllers.empty()) {
      found = tighter(found, tightest(root, group, quota_v2));
    } else if (has_cpu_controller(controllers)) {
      found = tighter(found, tightest(root + "/" + controllers, group, quota_v1));
      found = tighter(found, tightest(root + "/cpu", group, quota_v1));
    }
  }
  return found;
}

std::optional<uint32_t> parse_cpu_max(std::string_view text) {
  const std::string_view quota_us = take_until(text, ' ');
  return whole_cpus(parse_number(quota_us), parse_number(text));
}

}  // namespace sluice::config
