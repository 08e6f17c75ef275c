#include "state/part_reader.hpp"

namespace sluice::state {

tl::expected<PartReader, PartDamage> PartReader::open(std::span<const std::byte> part) noexcept {
  const tl::expected<PartHeader, PartDamage> header = read_header(part);
  if (!header) return tl::unexpected(header.error());
  return PartReader(*header, part.subspan(PartHeader::bytes));
}

std::optional<StoredRecord> PartReader::next() noexcept {
  if (damage_) return std::nullopt;
  if (left_ == 0) {
    if (records_.left() > 0) damage_ = PartDamage::record;
    return std::nullopt;
  }
  --left_;
  std::optional<StoredRecord> record = read_record(records_, header_.latest());
  if (!record) damage_ = PartDamage::record;
  return record;
}

}  // namespace sluice::state
