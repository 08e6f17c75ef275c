// The words of a subject's meters as bytes: only what is not zero of their rings, and no sums.
// Flow:   pack_meters() in a subject's record -> unpack_meters() for the same limits.
// Shape:  limit by limit, in their order: a byte for the layout of the limit's words, and then
//           concurrency              nothing: the open reservations are counted
//           fixed, day, calendar     since, used, open, end
//           sliding, rolling day     since, newest sub-window; a bit for each sub-window with
//                                    usage, the newest lowest; likewise of those with open usage;
//                                    used and, if it is not zero, open of each
//           gcra                     the same; level, when it leaked last, the ring's level, how
//                                    many sub-windows ago the amount changed, the amounts before
//         Every number is a varint; `since` is the difference to that of the limit before.
// Units:  as the words: nanoseconds, of state time and of the calendars' wall time.
// Errors: unpack_meters() returns false for bytes that do not belong to these limits, and for words
//         that no meter could have at this time; then the words are arbitrary.
// Bounds: limits::quota_limits_max limits, meter_bytes_max each.
// Source: the meanings of the words: limiter/meter.hpp, limiter/ring_meter.hpp.
#pragma once

#include <cstddef>
#include <span>

#include "limiter/meter_shape.hpp"
#include "state/byte_writer.hpp"

namespace sluice::state {

// Of one limit: layout, since, newest and two words of bits, and every sub-window of a rolling day,
// which is more than that of a gcra with its eight further words.
inline constexpr size_t meter_bytes_max =
    1 + 4 * varint_bytes_max + size_t{2} * limiter::rolling_day_places * varint_bytes_max;

// The words must be those of a live subject: their sums are not written.
void pack_meters(ByteWriter& writer, std::span<const limiter::MeterShape> shapes,
                 const limiter::Words& words) noexcept;

// `latest`: no word can be of a later time or call. Writes every word of these limits.
bool unpack_meters(std::span<const std::byte> bytes, std::span<const limiter::MeterShape> shapes,
                   const limiter::Moment& latest, const limiter::Words& words) noexcept;

}  // namespace sluice::state
