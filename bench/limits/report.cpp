#include "bench/limits/report.hpp"

#include <spdlog/fmt/fmt.h>

namespace sluice::limits_bench {

std::string cpu_text(double cpu_s, double seconds) {
  return fmt::format("{:.2f} s, {:.0f} % of a core", cpu_s, 100 * cpu_s / seconds);
}

}  // namespace sluice::limits_bench
