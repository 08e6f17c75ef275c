// What a subject or a reservation knows about its record in the file.
// Lives:  in a few bits of the object itself, beside what every call reads.
#pragma once

#include <cstdint>

namespace sluice::quota {

// Whether it has changed, and before which cut: cuts alternate, and one has written all of its
// before the next begins. Where nothing is kept no cut ever begins.
enum class ChangeMark : uint8_t { clean, odd_cut, even_cut };

// Whether the file may have a record of it, and of which lap: laps alternate, and one is over
// before the next begins.
enum class RecordMark : uint8_t { none, odd_lap, even_lap };

}  // namespace sluice::quota
