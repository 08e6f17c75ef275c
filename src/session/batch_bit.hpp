// Bits of api::QuotaBatch::kind of a native session: what the answer may hold, and what kind of
// frame asked.
#pragma once

#include <cstdint>

namespace sluice::session::batch_bit {

inline constexpr uint8_t tickets = 1, reservations = 2, retries = 4, limits = 8, query = 16,
                         usage = 32, connection_bound = 64, forwarded = 128;

}  // namespace sluice::session::batch_bit
