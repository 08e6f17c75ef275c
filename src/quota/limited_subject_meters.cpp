#include "quota/limited_subject_meters.hpp"

#include <algorithm>

namespace sluice::quota {

using limiter::Meter;
using limiter::MeterShape;
using limiter::Moment;
using limiter::RingMeter;
using limiter::Shares;

namespace {

// Undoes what charge_if_fits() has charged before it came to the limit `until_limit`.
void undo_charges(const LimitedSubjects& limited, const Shares& shares, const LimitedSubject& until,
                  const MeterShape& until_limit, const Moment& now) noexcept {
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      if (&each == &until && &shape == &until_limit) return;
      const uint64_t share = shares.of(shape);
      RingMeter(shape, each.words).close(share, share, {.ns = now.ns, .order = now.order}, now);
    }
  }
}

bool fits(const LimitedSubject& each, const Shares& shares, const Moment& now) noexcept {
  for (const MeterShape& shape : each.quota->shapes) {
    Meter meter(shape, each.words);
    meter.roll(now);
    if (!limit_fits(meter, shape, each, shares.of(shape))) return false;
  }
  return true;
}

// The same where all limits slide.
bool fits_sliding(const LimitedSubject& each, const Shares& shares, const Moment& now) noexcept {
  for (const MeterShape& shape : each.quota->shapes) {
    RingMeter meter(shape, each.words);
    meter.roll(now);
    if (!meter.fits(share_with_holds(shape, each, shares.of(shape)))) return false;
  }
  return true;
}

}  // namespace

bool subjects_fit(const LimitedSubjects& limited, const Shares& shares,
                  const Moment& now) noexcept {
  return std::all_of(limited.begin(), limited.end(), [&](const LimitedSubject& each) {
    return each.quota->slides ? fits_sliding(each, shares, now) : fits(each, shares, now);
  });
}

AwaitedVerdict awaited_verdict(const LimitedSubjects& limited, const Shares& shares,
                               const api::QuotaBatch& batch, const Moment& now) noexcept {
  bool has_holds = false;
  for (const LimitedSubject& each : limited) {
    if (each.held == nullptr) continue;
    if (each.held->last_batch == &batch) return AwaitedVerdict::own_batch;
    has_holds = true;
  }
  const bool may_fit = has_holds && subjects_fit(without_holds(limited), shares, now);
  return may_fit ? AwaitedVerdict::others : AwaitedVerdict::none;
}

LimitedSubjects without_holds(LimitedSubjects limited) noexcept {
  for (LimitedSubject& each : limited) each.held = nullptr;
  return limited;
}

void charge(const LimitedSubjects& limited, const Shares& shares, const Moment& now) noexcept {
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      Meter(shape, each.words).charge(shares.of(shape), true, now);
    }
  }
}

void roll_and_charge(const LimitedSubjects& limited, const Shares& shares,
                     const Moment& now) noexcept {
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      Meter meter(shape, each.words);
      meter.roll(now);
      meter.charge(shares.of(shape), true, now);
    }
  }
}

// Where all limits slide, as most often, each is charged as soon as it was checked; a limit that
// does not fit undoes the charges before it, and leaves no trace of them.
bool charge_if_fits(const LimitedSubjects& limited, const Shares& shares,
                    const Moment& now) noexcept {
  for (const LimitedSubject& each : limited) {
    if (!each.quota->slides || each.held != nullptr) {
      if (!subjects_fit(limited, shares, now)) return false;
      charge(limited, shares, now);
      return true;
    }
  }
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      RingMeter meter(shape, each.words);
      const uint64_t share = shares.of(shape);
      meter.roll(now);
      if (!meter.fits(share)) {
        undo_charges(limited, shares, each, shape, now);
        return false;
      }
      meter.charge(share, true);
    }
  }
  return true;
}

void charge_used(const MeterShape& shape, const limiter::Words& words, uint64_t amount,
                 const Moment& now) noexcept {
  Meter meter(shape, words);
  meter.roll(now);
  meter.charge(amount, false, now);
}

void charge_used(const LimitedSubjects& limited, const Shares& shares, const Moment& now) noexcept {
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      charge_used(shape, each.words, shares.of(shape), now);
    }
  }
}

void begin_meters(const CompiledQuota& quota, const limiter::Words& words,
                  const Moment& now) noexcept {
  for (const MeterShape& shape : quota.shapes) Meter(shape, words).begin(now);
}

}  // namespace sluice::quota
