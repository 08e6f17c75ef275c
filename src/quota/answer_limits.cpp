#include "quota/answer_limits.hpp"

#include <algorithm>
#include <cstring>

#include "limiter/calendar.hpp"
#include "limiter/meter.hpp"
#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {

using api::LimitReport;
using limiter::Meter;
using limiter::MeterShape;
using limiter::Moment;

namespace {

// Without a limit: as much as a call may ask for.
uint64_t remaining(const MeterShape& shape, uint64_t used) noexcept {
  if (shape.ceiling == api::Ceiling::unlimited) return limits::amount_max;
  if (shape.ceiling == api::Ceiling::block) return 0;
  return shape.amount - std::min(shape.amount, used);
}

// Periods of a calendar differ in length.
int64_t period_ms(const MeterShape& shape, const Moment& now) noexcept {
  if (shape.kind != api::LimitKind::calendar) return shape.period_ns / base::ns_per_ms;
  const limiter::Period period = limiter::period_of(*shape.zone, shape.unit, now.wall_ns);
  return (period.end_ns - period.begin_ns) / base::ns_per_ms;
}

// Reports each limit of the limited subject that is asked for. False: there is no room for more
// reports.
bool add_limits(std::vector<LimitReport>& reports, api::QuotaAnswer& answer,
                const LimitedSubject& each, const limiter::Shares& shares, ReportedLimits which,
                const Moment& now) noexcept {
  const bool denied = !api::admits(answer.code);
  for (size_t at = 0; at < each.quota->shapes.size(); ++at) {
    const MeterShape& shape = each.quota->shapes[at];
    Meter meter(shape, each.words);
    meter.roll(now);
    LimitReport report = report_of(shape, each.quota->quota.limits[at], each, now);
    if (denied) report.violated = !limit_fits(meter, shape, each, shares.of(shape));
    if (which == ReportedLimits::violated && !report.violated) continue;
    if (reports.size() == limits::quota_reports_max) return false;
    reports.push_back(report);
    ++answer.limits_count;
  }
  return true;
}

}  // namespace

LimitReport report_of(const MeterShape& shape, const api::Limit& limit, const LimitedSubject& each,
                      const Moment& now) noexcept {
  const Meter meter(shape, each.words);
  const bool is_slot = shape.kind == api::LimitKind::concurrency;
  LimitReport report{.subject = each.place,
                     .metric = shape.metric,
                     .kind = shape.kind,
                     .ceiling = shape.ceiling,
                     .name_bytes = static_cast<uint8_t>(limit.name.size()),
                     .amount = limit.amount,
                     .used = share_with_holds(shape, each, is_slot ? each.open : meter.used()),
                     .reserved = share_with_holds(shape, each, is_slot ? each.open : meter.open()),
                     .period_ms = period_ms(shape, now),
                     .reset_ms = is_slot ? 0 : base::ceil_ms(meter.empty_at_ns(now) - now.ns)};
  std::memcpy(report.name, limit.name.data(), limit.name.size());
  report.remaining = remaining(shape, report.used);
  return report;
}

void answer_limits(api::QuotaAnswer& answer, std::vector<LimitReport>& reports,
                   const LimitedSubjects& limited, const limiter::Shares& shares,
                   ReportedLimits which, const AnswerSources& from) noexcept {
  answer.first_limit = static_cast<uint32_t>(reports.size());
  for (LimitedSubject each : limited) {
    // The call itself may have opened a reservation since its limited subjects were gathered.
    if (each.index != no_subject) each.open = from.subjects[each.index].open;
    if (add_limits(reports, answer, each, shares, which, from.clock.moment())) continue;
    answer.limits_left_out = true;
    return;
  }
}

}  // namespace sluice::quota
