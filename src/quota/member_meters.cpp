#include "quota/member_meters.hpp"

namespace sluice::quota {

using limiter::Meter;
using limiter::MeterShape;
using limiter::Moment;
using limiter::RingMeter;
using limiter::Shares;

namespace {

// Undoes what charge_if_fits() has charged before it came to the limit `until_limit`.
void undo_charges(const Members& members, const Shares& shares, const Member& until,
                  const MeterShape& until_limit, const Moment& now) noexcept {
  for (const Member& member : members) {
    for (const MeterShape& shape : member.quota->shapes) {
      if (&member == &until && &shape == &until_limit) return;
      const uint64_t share = shares.of(shape);
      RingMeter(shape, member.words).close(share, share, {.ns = now.ns, .order = now.order}, now);
    }
  }
}

}  // namespace

bool members_fit(const Members& members, const Shares& shares, const Moment& now) noexcept {
  for (const Member& member : members) {
    for (const MeterShape& shape : member.quota->shapes) {
      Meter meter(shape, member.words);
      meter.roll(now);
      if (!limit_fits(meter, shape, member, shares.of(shape))) return false;
    }
  }
  return true;
}

void charge(const Members& members, const Shares& shares, const Moment& now) noexcept {
  for (const Member& member : members) {
    for (const MeterShape& shape : member.quota->shapes) {
      Meter(shape, member.words).charge(shares.of(shape), true, now);
    }
  }
}

// Where all limits slide, as most often, each is charged as soon as it was checked; a limit that
// does not fit undoes the charges before it, and leaves no trace of them.
bool charge_if_fits(const Members& members, const Shares& shares, const Moment& now) noexcept {
  for (const Member& member : members) {
    if (!member.quota->slides) {
      if (!members_fit(members, shares, now)) return false;
      charge(members, shares, now);
      return true;
    }
  }
  for (const Member& member : members) {
    for (const MeterShape& shape : member.quota->shapes) {
      RingMeter meter(shape, member.words);
      const uint64_t share = shares.of(shape);
      meter.roll(now);
      if (!meter.fits(share)) {
        undo_charges(members, shares, member, shape, now);
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

void begin_meters(const QuotaClass& quota, const limiter::Words& words,
                  const Moment& now) noexcept {
  for (const MeterShape& shape : quota.shapes) Meter(shape, words).begin(now);
}

api::QuotaCode admission_code(const Members& members) noexcept {
  if (members.empty()) return api::QuotaCode::unknown_model;
  for (const Member& member : members) {
    if (member.quota->limits_anything) return api::QuotaCode::ok;
  }
  return api::QuotaCode::unlimited;
}

}  // namespace sluice::quota
