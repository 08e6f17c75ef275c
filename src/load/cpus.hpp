// The CPUs that the load tool and its server may be put on.
// Errors: std::runtime_error that names the flag, the CPU and those that may be used.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice::load {

// Those of the process's cpuset; taskset does not narrow them.
std::vector<int> allowed_cpus();

// "0-3, 8".
std::string cpus_text(std::span<const int> cpus);

// Throws unless each of `cpus`, the value of `flag`, is among `allowed`.
void check_cpus(const std::string& flag, std::span<const int> cpus, std::span<const int> allowed);

// Async-signal-safe. False when the kernel did not put this thread on exactly these.
bool set_affinity(std::span<const int> cpus) noexcept;

}  // namespace sluice::load
