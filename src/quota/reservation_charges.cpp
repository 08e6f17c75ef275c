#include "quota/reservation_charges.hpp"

#include "limiter/meter.hpp"
#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {

using limiter::Charge;
using limiter::Meter;
using limiter::MeterShape;
using limiter::Moment;
using limiter::Shares;

namespace {

Charge charge_of(const Reservation& reservation) noexcept {
  return {.ns = reservation.charged_ns, .order = reservation.order};
}

// Where all limits slide, AnyMeter is RingMeter: no need to distinguish kinds.
template <typename AnyMeter>
void replace_open(const Subject& subject, const Shares& reserved, const Shares& used,
                  const Charge& charge, const Moment& now) noexcept {
  for (const MeterShape& shape : subject.quota->shapes) {
    const uint64_t before = reserved.of(shape);
    const uint64_t after = used.of(shape);
    const uint64_t refund = after < before ? before - after : 0;
    AnyMeter(shape, subject.words).close(before, refund, charge, now);
    if (after > before) charge_used(shape, subject.words, after - before, now);
  }
}

// For an expired reservation: nothing of it is open any more.
void replace_expired(const Subject& subject, const Shares& reserved, const Shares& used,
                     const Reservation& reservation, bool is_refunded, const Moment& now) noexcept {
  // A reset has forgotten charges that were no longer open: there is nothing to refund.
  const bool is_forgotten = reservation.expired_order < subject.reset_order;
  for (const MeterShape& shape : subject.quota->shapes) {
    const uint64_t before = is_refunded ? 0 : reserved.of(shape);
    const uint64_t after = used.of(shape);
    if (after < before && !is_forgotten) {
      Meter(shape, subject.words).close(0, before - after, charge_of(reservation), now);
    }
    if (after > before) charge_used(shape, subject.words, after - before, now);
  }
}

}  // namespace

void replace_shares(const Reservation& reservation, const Shares& used, SubjectTable& subjects,
                    const Moment& now) noexcept {
  const Shares reserved(reservation.amounts);
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    if (!is_here(reservation.subjects[place])) continue;
    const Subject& subject = subjects.to_change(reservation.subjects[place]);
    if (subject.quota == nullptr) continue;
    if (reservation.state != api::ReservationState::open) {
      const bool is_refunded = (reservation.refunded & (1U << place)) != 0;
      replace_expired(subject, reserved, used, reservation, is_refunded, now);
    } else if (subject.quota->slides) {
      replace_open<limiter::RingMeter>(subject, reserved, used, charge_of(reservation), now);
    } else {
      replace_open<Meter>(subject, reserved, used, charge_of(reservation), now);
    }
  }
}

void close_expired_charges(Reservation& reservation, SubjectTable& subjects,
                           const Moment& now) noexcept {
  const Shares reserved(reservation.amounts);
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    if (!is_here(reservation.subjects[place])) continue;
    const Subject& subject = subjects.to_change(reservation.subjects[place]);
    if (subject.quota == nullptr) continue;
    const bool refunds = subject.quota->quota.refund_expired;
    if (refunds) reservation.refunded |= static_cast<uint8_t>(1U << place);
    for (const MeterShape& shape : subject.quota->shapes) {
      const uint64_t share = reserved.of(shape);
      Meter(shape, subject.words).close(share, refunds ? share : 0, charge_of(reservation), now);
    }
  }
}

}  // namespace sluice::quota
