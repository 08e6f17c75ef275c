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
  return name_of(metric, metric_names);
}

std::string_view kind_name(LimitKind kind) noexcept {
  return name_of(kind, kind_names);
}

std::string_view unit_name(CalendarUnit unit) noexcept {
  return name_of(unit, unit_names);
}

std::string_view source_name(QuotaSource source) noexcept {
  static constexpr std::array<std::string_view, 5> names{"none", "run_time", "file", "profile",
                                                         "default"};
  return name_of(source, names);
}

}  // namespace sluice::api
