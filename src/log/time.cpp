#include "log/time.hpp"

#include <spdlog/fmt/fmt.h>

#include <ctime>

namespace sluice::log {

std::string utc_time(int64_t wall_ns) {
  const std::time_t seconds = wall_ns / base::ns_per_s;
  std::tm date{};
  ::gmtime_r(&seconds, &date);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", date.tm_year + 1900,
                     date.tm_mon + 1, date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec,
                     wall_ns % base::ns_per_s);
}

}  // namespace sluice::log
