// Arithmetic over every limit of every limited subject of a call: whether amounts fit, and charging
// them.
// Units:  shares are what each limit counts of the amounts (limiter/meter_shape.hpp).
// Errors: none; a charge without a check before it may exceed a limit.
// Lives:  pure but for the limited subjects' words, which belong to their subjects.
#pragma once

#include "api/quota.hpp"
#include "limiter/meter.hpp"
#include "quota/limited_subjects.hpp"

namespace sluice::quota {

// The part of a limit that calls hold whose verdict is still to come.
inline uint64_t held_share(const limiter::MeterShape& shape, const LimitedSubject& each) noexcept {
  if (each.held == nullptr) return 0;
  if (shape.kind == api::LimitKind::concurrency) return each.held->slots;
  return limiter::Shares(each.held->amounts()).of(shape);
}

// With what is held, at most so much that nothing fits.
inline uint64_t share_with_holds(const limiter::MeterShape& shape, const LimitedSubject& each,
                                 uint64_t share) noexcept {
  const uint64_t held = held_share(shape, each);
  return share > UINT64_MAX - held ? UINT64_MAX : share + held;
}

// Whether one limit has room. `meter` has been rolled.
inline bool limit_fits(const limiter::Meter& meter, const limiter::MeterShape& shape,
                       const LimitedSubject& each, uint64_t share) noexcept {
  if (shape.kind != api::LimitKind::concurrency) {
    return meter.fits(share_with_holds(shape, each, share));
  }
  if (shape.ceiling != api::Ceiling::number) return shape.ceiling == api::Ceiling::unlimited;
  return each.open + held_share(shape, each) < shape.amount;
}

// Whether every limit has room.
bool subjects_fit(const LimitedSubjects& limited, const limiter::Shares& shares,
                  const limiter::Moment& now) noexcept;

// The verdict on other calls that one that does not fit has to wait for: it fits if they hold
// nothing. Behind a hold of its own batch it always waits, to be decided as if after it.
enum class AwaitedVerdict : uint8_t { none, own_batch, others };
AwaitedVerdict awaited_verdict(const LimitedSubjects& limited, const limiter::Shares& shares,
                               const api::QuotaBatch& batch, const limiter::Moment& now) noexcept;
// The same subjects as if nothing of them were held.
LimitedSubjects without_holds(LimitedSubjects limited) noexcept;

// Charges every limit; the charges are open until their reservation ends. Call subjects_fit()
// first: it rolls the meters.
void charge(const LimitedSubjects& limited, const limiter::Shares& shares,
            const limiter::Moment& now) noexcept;
// Rolls the meters first: windows may have ended, and more may be charged, since subjects_fit().
void roll_and_charge(const LimitedSubjects& limited, const limiter::Shares& shares,
                     const limiter::Moment& now) noexcept;

// Charges every limit and returns true, or charges none.
bool charge_if_fits(const LimitedSubjects& limited, const limiter::Shares& shares,
                    const limiter::Moment& now) noexcept;

// Charges one limit, or every limit, for what was used already, whether it fits or not.
void charge_used(const limiter::MeterShape& shape, const limiter::Words& words, uint64_t amount,
                 const limiter::Moment& now) noexcept;
void charge_used(const LimitedSubjects& limited, const limiter::Shares& shares,
                 const limiter::Moment& now) noexcept;

// Starts the meters of all limits with nothing used.
void begin_meters(const CompiledQuota& quota, const limiter::Words& words,
                  const limiter::Moment& now) noexcept;

// The code of a call that is admitted: `ok`, or that nothing limits it.
inline api::QuotaCode admission_code(const LimitedSubjects& limited) noexcept {
  if (limited.empty()) return api::QuotaCode::unknown_subject_allowed;
  for (const LimitedSubject& each : limited) {
    if (each.quota->limits_anything) return api::QuotaCode::ok;
  }
  return api::QuotaCode::unlimited;
}

}  // namespace sluice::quota
