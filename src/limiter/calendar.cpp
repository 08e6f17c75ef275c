#include "limiter/calendar.hpp"

#include <algorithm>
#include <chrono>

#include "base/assert.hpp"
#include "base/time.hpp"

namespace sluice::limiter {
namespace {

using api::CalendarUnit;
using base::s_per_day;
using base::s_per_hour;

constexpr int64_t floor_to(int64_t value, int64_t unit) noexcept {
  const int64_t rest = value % unit;
  return value - (rest < 0 ? rest + unit : rest);
}

constexpr int64_t in_ns(int64_t s) noexcept {
  if (s > INT64_MAX / base::ns_per_s) return INT64_MAX;
  if (s < INT64_MIN / base::ns_per_s) return INT64_MIN;
  return s * base::ns_per_s;
}

struct LocalPeriod {
  int64_t begin_s = 0;
  int64_t end_s = 0;
};

LocalPeriod month_of(int64_t local_s) noexcept {
  using namespace std::chrono;
  const sys_days day{days{floor_to(local_s, s_per_day) / s_per_day}};
  const year_month_day date{day};
  const year_month month = date.year() / date.month();
  const auto begin_of = [](year_month of) {
    return sys_days{of / 1}.time_since_epoch().count() * s_per_day;
  };
  return {.begin_s = begin_of(month), .end_s = begin_of(month + months{1})};
}

LocalPeriod local_period(CalendarUnit unit, int64_t local_s) noexcept {
  if (unit == CalendarUnit::month) return month_of(local_s);
  if (unit == CalendarUnit::week) {
    constexpr int64_t monday_s = 4 * s_per_day;  // 1970 began on a Thursday
    const int64_t begin_s = floor_to(local_s - monday_s, 7 * s_per_day) + monday_s;
    return {.begin_s = begin_s, .end_s = begin_s + 7 * s_per_day};
  }
  ASSERT(unit == CalendarUnit::day);
  const int64_t begin_s = floor_to(local_s, s_per_day);
  return {.begin_s = begin_s, .end_s = begin_s + s_per_day};
}

Period hour_of(const Zone& zone, int64_t s) noexcept {
  const size_t stretch = zone.stretch_at(s);
  const int64_t offset_s = zone.stretches()[stretch].offset_s;
  const int64_t begin_s = floor_to(s + offset_s, s_per_hour) - offset_s;
  return {.begin_ns = in_ns(std::max(begin_s, zone.begin_s(stretch))),
          .end_ns = in_ns(std::min(begin_s + s_per_hour, zone.end_s(stretch)))};
}

}  // namespace

Period period_of(const Zone& zone, CalendarUnit unit, int64_t wall_ns) noexcept {
  const int64_t s = wall_ns / base::ns_per_s - (wall_ns % base::ns_per_s < 0);
  if (unit == CalendarUnit::hour) return hour_of(zone, s);
  const LocalPeriod local = local_period(unit, zone.latest_local(s));
  return {.begin_ns = in_ns(zone.first_at(local.begin_s)),
          .end_ns = in_ns(zone.first_at(local.end_s))};
}

}  // namespace sluice::limiter
