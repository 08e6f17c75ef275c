// A part: a header, and records of one shard as of one instant. Parts are what the file consists
// of.
// Flow:   PartBuilder -> bytes -> the file -> bytes -> PartReader.
// Shape:  little-endian, PartHeader::bytes of header, then the records without gaps:
//             0  "SLGP"                       4  format
//             8  checksum of all that follows
//            16  epoch                       24  state time
//            32  wall time                   40  boot time           48  boot id (16 bytes)
//            64  the calendars' wall time    72  order               80  order of the last reset
//            88  version of a cluster's table; 0: there is one node  96  length of the records
//           100  number of records          104  shard              106  shards   108  file's tag
// Units:  nanoseconds, bytes.
// Errors: read_header() refuses every part whose bits are not those that were written.
// Bounds: part_bytes_max.
// Lives:  values.
// Source: XXH3 (xxhash 0.8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tl/expected.hpp>

#include "limiter/meter_shape.hpp"
#include "state/record.hpp"
#include "state/state_clock.hpp"

namespace sluice::state {

struct PartHeader {
  static constexpr size_t bytes = 112;
  static constexpr size_t checksum_at = 8;
  static constexpr size_t records_bytes_at = 96;
  static constexpr uint32_t present_format = 1;

  uint64_t epoch = 0;  // of the cut: all parts of all shards with this number belong together
  uint16_t shard = 0;
  uint16_t shards = 1;
  StoredTime time;               // not before any time in the records
  int64_t calendar_wall_ns = 0;  // of limiter::SteadyWall
  uint64_t order = 0;            // of the shard's last call; not before any order in the records
  uint64_t reset_all_order = 0;  // of the last reset of all subjects; 0: there was none
  uint64_t table_version = 0;
  uint32_t records_bytes = 0;
  uint32_t records_count = 0;
  uint32_t file_tag = 0;  // of the file that it was written to; 0: unknown, of an earlier version

  limiter::Moment latest() const noexcept {
    return {.ns = time.state_ns, .wall_ns = calendar_wall_ns, .order = order};
  }
  bool operator==(const PartHeader&) const = default;
};

// Why a part cannot be read.
enum class PartDamage : uint8_t {
  not_a_part,    // it does not begin as one
  newer_format,  // written by a newer version
  length,        // it is cut off, or has more bytes than its header says
  checksum,
  header,  // a field has a value that it cannot have
  record   // likewise
};
std::string_view damage_text(PartDamage damage) noexcept;

// A part is ended behind the record with which its records reach this length.
inline constexpr size_t full_part_bytes = 1024 * 1024;
inline constexpr size_t part_bytes_max =
    PartHeader::bytes + full_part_bytes +
    subject_bytes_max(limits::key_bytes_max, limits::quota_limits_max);

// The hash of the records is the seed of the header's, which is the checksum: so records can be
// hashed before their header is written.
uint64_t records_hash(std::span<const std::byte> records) noexcept;
// Of what follows the checksum in a header.
uint64_t header_hash(std::span<const std::byte, PartHeader::bytes> header,
                     uint64_t hash_of_records) noexcept;

// Writes the header of a part whose records have this hash.
void write_header(std::span<std::byte, PartHeader::bytes> room, const PartHeader& header,
                  uint64_t hash_of_records) noexcept;

// Checks the whole part but its records' contents.
tl::expected<PartHeader, PartDamage> read_header(std::span<const std::byte> part) noexcept;

}  // namespace sluice::state
