#include "quota/obstacle.hpp"

#include <algorithm>

#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {

using api::QuotaCode;
using limiter::Meter;
using limiter::MeterShape;

namespace {

constexpr int64_t minute_ms = 60'000;

bool is_daily(const MeterShape& shape) noexcept {
  return shape.kind == api::LimitKind::anchored_day || shape.kind == api::LimitKind::rolling_day ||
         shape.unit == api::CalendarUnit::day || shape.period_ns == base::ns_per_day;
}

bool is_per_minute(const MeterShape& shape) noexcept {
  return shape.period_ns == minute_ms * base::ns_per_ms;
}

// The code of the reference, where it has one.
QuotaCode code_of(const MeterShape& shape) noexcept {
  switch (shape.metric) {
    case api::Metric::requests:
      if (is_daily(shape)) return QuotaCode::rpd_exceeded;
      return is_per_minute(shape) ? QuotaCode::rpm_exceeded : QuotaCode::requests_exceeded;
    case api::Metric::tokens:
      return is_per_minute(shape) ? QuotaCode::tpm_exceeded : QuotaCode::tokens_exceeded;
    case api::Metric::input_tokens:
      return QuotaCode::input_tokens_exceeded;
    case api::Metric::output_tokens:
      return QuotaCode::output_tokens_exceeded;
    case api::Metric::cost:
      return QuotaCode::cost_exceeded;
    case api::Metric::concurrency:
      return QuotaCode::concurrency_exceeded;
  }
  return QuotaCode::none;
}

// Codes that waiting cannot help take precedence; else the reference's order, which is the codes'.
bool outweighs(QuotaCode one, QuotaCode other) noexcept {
  if (other == QuotaCode::ok) return true;
  const bool is_final = !api::may_retry(one);
  if (is_final != !api::may_retry(other)) return is_final;
  return is_final ? one > other : one < other;  // blocked is behind exceeds_limit
}

// The obstacle of one limit that has no room for the share.
Obstacle obstacle_of(const MeterShape& shape, const Meter& meter, uint64_t share,
                     const limiter::Moment& now) noexcept {
  if (shape.ceiling == api::Ceiling::block) {
    return {QuotaCode::blocked, base::never_ns, base::never_ns};
  }
  if (share > shape.amount) return {QuotaCode::exceeds_limit, base::never_ns, base::never_ns};
  if (shape.kind == api::LimitKind::concurrency) {
    return {code_of(shape), now.ns + unknown_retry_after_ns, now.ns};
  }
  return {code_of(shape), meter.fits_at_ns(share, false, now), meter.fits_at_ns(share, true, now)};
}

}  // namespace

void add(const Obstacle& found, Obstacle& worst) noexcept {
  if (outweighs(found.code, worst.code)) worst.code = found.code;
  worst.fits_at_ns = std::max(worst.fits_at_ns, found.fits_at_ns);
  worst.earliest_ns = std::max(worst.earliest_ns, found.earliest_ns);
}

Obstacle find_obstacle(const LimitedSubjects& limited, const limiter::Shares& shares,
                       const limiter::Moment& now) noexcept {
  Obstacle worst{.fits_at_ns = now.ns, .earliest_ns = now.ns};
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      Meter meter(shape, each.words);
      meter.roll(now);
      const uint64_t share = shares.of(shape);
      if (limit_fits(meter, shape, each, share)) continue;
      add(obstacle_of(shape, meter, share, now), worst);
    }
  }
  return worst;
}

QuotaCode why_no_wait(const api::QuotaCall& call, const Obstacle& obstacle,
                      int64_t now_ns) noexcept {
  if (obstacle.fits_at_ns == base::never_ns) return obstacle.code;
  if ((call.flags & api::quota_flag::draining) != 0) return QuotaCode::draining;
  const int64_t wait_ns = int64_t{call.wait_ms_max} * base::ns_per_ms;
  const bool is_too_late = wait_ns != 0 && obstacle.earliest_ns > now_ns + wait_ns;
  return is_too_late ? QuotaCode::deadline_unmeetable : QuotaCode::none;
}

QuotaCode final_code(const Obstacle& obstacle) noexcept {
  return api::may_retry(obstacle.code) ? QuotaCode::exceeds_limit : obstacle.code;
}

int64_t retry_after_ms_of(QuotaCode code, const Obstacle& obstacle, int64_t now_ns) noexcept {
  if (!api::may_retry(code) || obstacle.fits_at_ns == base::never_ns) return api::retry_never;
  // Where others wait, their queue moves no later than the call would fit alone.
  return std::max<int64_t>(base::ceil_ms(obstacle.fits_at_ns - now_ns), 1);
}

void set_retry_after(api::QuotaAnswer& answer) noexcept {
  if (answer.retry_after_ms != 0) return;
  answer.retry_after_ms =
      api::may_retry(answer.code) ? limits::unknown_retry_after_ms : api::retry_never;
}

}  // namespace sluice::quota
