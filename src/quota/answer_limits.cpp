#include "quota/answer_limits.hpp"

#include <algorithm>
#include <cstring>

#include "limiter/calendar.hpp"
#include "limiter/meter.hpp"
#include "quota/member_meters.hpp"

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

// Reports each limit of the member that is asked for. False: there is no room for more reports.
bool add_limits(std::vector<LimitReport>& reports, api::QuotaAnswer& answer, const Member& member,
                const limiter::Shares& shares, ReportedLimits which, const Moment& now) noexcept {
  const bool denied = !api::admits(answer.code);
  for (size_t at = 0; at < member.quota->shapes.size(); ++at) {
    const MeterShape& shape = member.quota->shapes[at];
    Meter meter(shape, member.words);
    meter.roll(now);
    LimitReport report = report_of(shape, member.quota->quota.limits[at], member, now);
    if (denied) report.violated = !limit_fits(meter, shape, member, shares.of(shape));
    if (which == ReportedLimits::violated && !report.violated) continue;
    if (reports.size() == limits::quota_reports_max) return false;
    reports.push_back(report);
    ++answer.limits_count;
  }
  return true;
}

}  // namespace

LimitReport report_of(const MeterShape& shape, const api::Limit& limit, const Member& member,
                      const Moment& now) noexcept {
  const Meter meter(shape, member.words);
  const bool is_slot = shape.kind == api::LimitKind::concurrency;
  LimitReport report{.subject = member.place,
                     .metric = shape.metric,
                     .kind = shape.kind,
                     .ceiling = shape.ceiling,
                     .name_bytes = static_cast<uint8_t>(limit.name.size()),
                     .amount = limit.amount,
                     .used = is_slot ? member.open : meter.used(),
                     .reserved = is_slot ? member.open : meter.open(),
                     .period_ms = period_ms(shape, now),
                     .reset_ms = is_slot ? 0 : base::ceil_ms(meter.empty_at_ns(now) - now.ns)};
  std::memcpy(report.name, limit.name.data(), limit.name.size());
  report.remaining = remaining(shape, report.used);
  return report;
}

void answer_limits(api::QuotaAnswer& answer, std::vector<LimitReport>& reports,
                   const Members& members, const api::Amounts& amounts, ReportedLimits which,
                   const AnswerSources& from) noexcept {
  answer.first_limit = static_cast<uint32_t>(reports.size());
  const limiter::Shares shares(amounts);
  for (Member member : members) {
    // The call itself may have opened a reservation since its members were gathered.
    if (member.index != no_subject) member.open = from.subjects[member.index].open;
    if (add_limits(reports, answer, member, shares, which, from.clock.moment())) continue;
    answer.limits_left_out = true;
    return;
  }
}

}  // namespace sluice::quota
