// Reads the records of a part.
// Flow:   bytes of the file -> open() -> header() -> next() until there is none -> damage().
// Errors: values. open() refuses a part whose bits are not those that were written; what a bug
//         wrote next() finds, as far as a record by itself shows it.
// Lives:  the bytes outlive it, and the records that it returns point into them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <tl/expected.hpp>

#include "state/part.hpp"
#include "state/record.hpp"

namespace sluice::state {

class PartReader {
 public:
  static tl::expected<PartReader, PartDamage> open(std::span<const std::byte> part) noexcept;

  const PartHeader& header() const noexcept { return header_; }

  // None: that was the last, or it is damaged.
  std::optional<StoredRecord> next() noexcept;
  // None: not so far.
  std::optional<PartDamage> damage() const noexcept { return damage_; }

 private:
  PartReader(const PartHeader& header, std::span<const std::byte> records) noexcept
      : header_(header), records_(records), left_(header.records_count) {}

  PartHeader header_;
  ByteReader records_;
  uint32_t left_;
  std::optional<PartDamage> damage_;
};

}  // namespace sluice::state
