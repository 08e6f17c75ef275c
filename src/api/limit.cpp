#include "api/limit.hpp"

#include <array>

namespace sluice::api {
namespace {

template <typename Value, size_t Count>
std::string_view name_of(Value value, const std::array<std::string_view, Count>& names) noexcept {
  const auto index = static_cast<size_t>(value);
  return index < Count ? names[index] : std::string_view{};
}

}  // namespace

std::string_view metric_name(Metric metric) noexcept {
  static constexpr std::array<std::string_view, metrics_count> names{
      "requests", "input_tokens", "output_tokens", "tokens", "cost", "concurrency"};
  return name_of(metric, names);
}

std::string_view kind_name(LimitKind kind) noexcept {
  static constexpr std::array<std::string_view, limit_kinds_count> names{
      "concurrency", "fixed", "sliding", "gcra", "anchored_day", "rolling_day", "calendar"};
  return name_of(kind, names);
}

std::string_view unit_name(CalendarUnit unit) noexcept {
  static constexpr std::array<std::string_view, 5> names{"none", "hour", "day", "week", "month"};
  return name_of(unit, names);
}

std::string_view source_name(QuotaSource source) noexcept {
  static constexpr std::array<std::string_view, 5> names{"none", "run_time", "file", "profile",
                                                         "default"};
  return name_of(source, names);
}

}  // namespace sluice::api
