// Corrects the meters that a reservation was charged to, when it ends.
// Flow:   settle, cancel -> replace_charges(); expiry -> close_expired_charges().
// Shape:  a refund is credited where and when it was charged, as far as that window still runs; a
//         deficit is charged now.
// Lives:  pure but for the words of the subjects, which are brought to their present quota first.
#pragma once

#include "api/quota.hpp"
#include "quota/reservation.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

// Replaces what is charged of the reservation's amounts by these shares.
void replace_shares(const Reservation& reservation, const limiter::Shares& used,
                    SubjectTable& subjects, const limiter::Moment& now) noexcept;

// Replaces the amounts that are charged by the actual ones; `cached` of the input tokens were
// cached. The reservation is open, or has expired. The shares are made here, where the amounts are
// in registers: what was just written would be read in larger pieces, which a processor waits for.
inline void replace_charges(Reservation& reservation, const api::Amounts& actual, uint64_t cached,
                            SubjectTable& subjects, const limiter::Moment& now) noexcept {
  replace_shares(reservation, limiter::Shares(actual, cached), subjects, now);
  reservation.amounts = actual;
}

// Closes the charges of a reservation that expires: they stay, or are refunded where the quota says
// so.
void close_expired_charges(Reservation& reservation, SubjectTable& subjects,
                           const limiter::Moment& now) noexcept;

}  // namespace sluice::quota
