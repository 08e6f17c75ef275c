// What the end of a reservation does to the meters that it was charged to.
// Flow:   settle, cancel -> replace_charges(); its lifetime ends -> close_expired_charges().
// Shape:  a refund goes back to where and when it was charged, as far as that window still runs; a
//         deficit is charged now.
// Lives:  pure but for the words of the subjects, which come to their present quota first.
#pragma once

#include "api/quota.hpp"
#include "quota/reservation.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

// Puts the actual amounts in the place of those that are charged; of the input tokens so many were
// cached. The reservation is open, or has expired.
void replace_charges(Reservation& reservation, const api::Amounts& actual, uint64_t cached,
                     SubjectTable& subjects, const limiter::Moment& now) noexcept;

// Nothing is open any more; the charge stays, or is refunded where the quota says so.
void close_expired_charges(Reservation& reservation, SubjectTable& subjects,
                           const limiter::Moment& now) noexcept;

}  // namespace sluice::quota
