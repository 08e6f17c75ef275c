#include "state/part_filter.hpp"

#include <algorithm>
#include <variant>

#include "base/assert.hpp"
#include "state/part_reader.hpp"

namespace sluice::state {
namespace {

bool has_lost_class(const StoredRecord& record, std::span<const uint64_t> classes) noexcept {
  const auto* const subject = std::get_if<StoredSubject>(&record);
  if (subject == nullptr || subject->quota_class == 0) return false;
  return !std::binary_search(classes.begin(), classes.end(), subject->quota_class);
}

}  // namespace

FilteredPart without_other_classes(std::span<const std::byte> part,
                                   std::span<const uint64_t> classes) {
  auto reader = PartReader::open(part);
  ASSERT(reader);
  FilteredPart filtered{.bytes = {part.begin(), part.begin() + PartHeader::bytes}};
  PartHeader header = reader->header();
  std::span<const std::byte> left = part.subspan(PartHeader::bytes);
  while (const auto record = reader->next()) {
    const auto bytes = left.first(first_record_bytes(left));
    left = left.subspan(bytes.size());
    if (has_lost_class(*record, classes)) {
      ++filtered.left_out;
    } else {
      filtered.bytes.insert(filtered.bytes.end(), bytes.begin(), bytes.end());
    }
  }
  ASSERT(!reader->damage());
  const std::span<std::byte> made(filtered.bytes);
  header.records_bytes = static_cast<uint32_t>(made.size() - PartHeader::bytes);
  header.records_count -= filtered.left_out;
  write_header(made.first<PartHeader::bytes>(), header,
               records_hash(made.subspan(PartHeader::bytes)));
  return filtered;
}

}  // namespace sluice::state
