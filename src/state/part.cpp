#include "state/part.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::state {
namespace {

constexpr uint32_t mark = 0x5047'4C53;  // "SLGP"
constexpr size_t checked_from = PartHeader::checksum_at + sizeof(uint64_t);
static_assert(part_bytes_max <= UINT32_MAX);

void write_fields(ByteWriter& writer, const PartHeader& header) noexcept {
  const auto time = [&writer](int64_t ns) { writer.word(static_cast<uint64_t>(ns)); };
  writer.word(header.epoch);
  time(header.time.state_ns);
  time(header.time.machine.wall_ns);
  time(header.time.machine.boot_ns);
  writer.word(header.time.machine.boot.high);
  writer.word(header.time.machine.boot.low);
  time(header.calendar_wall_ns);
  writer.word(header.order);
  writer.word(header.reset_all_order);
  writer.word(header.table_version);
  writer.word(header.records_bytes);
  writer.word(header.records_count);
  writer.word(header.shard);
  writer.word(header.shards);
  writer.word(header.file_tag);
}

int64_t read_time(ByteReader& reader, int64_t ns_max) noexcept {
  const auto ns = reader.word<uint64_t>();
  if (ns > static_cast<uint64_t>(ns_max)) reader.fail();
  return static_cast<int64_t>(ns);
}

// Behind the checksum.
tl::expected<PartHeader, PartDamage> read_fields(ByteReader& reader) noexcept {
  PartHeader header;
  header.epoch = reader.word<uint64_t>();
  header.time.state_ns = read_time(reader, state_ns_max);
  header.time.machine.wall_ns = read_time(reader, wall_ns_max);
  header.time.machine.boot_ns = read_time(reader, wall_ns_max);
  header.time.machine.boot.high = reader.word<uint64_t>();
  header.time.machine.boot.low = reader.word<uint64_t>();
  header.calendar_wall_ns = read_time(reader, wall_ns_max);
  header.order = reader.word<uint64_t>();
  header.reset_all_order = reader.word<uint64_t>();
  header.table_version = reader.word<uint64_t>();
  header.records_bytes = reader.word<uint32_t>();
  header.records_count = reader.word<uint32_t>();
  header.shard = reader.word<uint16_t>();
  header.shards = reader.word<uint16_t>();
  header.file_tag = reader.word<uint32_t>();
  const bool is_possible = !reader.is_damaged() && header.epoch > 0 &&
                           header.shard < header.shards && header.shards <= limits::shards_max &&
                           header.reset_all_order <= header.order;
  if (!is_possible) return tl::unexpected(PartDamage::header);
  return header;
}

}  // namespace

std::string_view damage_text(PartDamage damage) noexcept {
  switch (damage) {
    case PartDamage::not_a_part:
      return "it is not a part of a state";
    case PartDamage::newer_format:
      return "a newer version of Sluicegate has written it";
    case PartDamage::length:
      return "its length is wrong";
    case PartDamage::checksum:
      return "its checksum is wrong";
    case PartDamage::header:
      return "its header has an impossible value";
    case PartDamage::record:
      break;
  }
  return "one of its records has an impossible value";
}

uint64_t records_hash(std::span<const std::byte> records) noexcept {
  return XXH3_64bits(records.data(), records.size());
}

uint64_t header_hash(std::span<const std::byte, PartHeader::bytes> header,
                     uint64_t hash_of_records) noexcept {
  const std::span<const std::byte> checked = header.subspan(checked_from);
  return XXH3_64bits_withSeed(checked.data(), checked.size(), hash_of_records);
}

void write_header(std::span<std::byte, PartHeader::bytes> room, const PartHeader& header,
                  uint64_t hash_of_records) noexcept {
  ByteWriter writer(room);
  writer.word(mark);
  writer.word(PartHeader::present_format);
  writer.word(uint64_t{0});
  write_fields(writer, header);
  ASSERT(writer.size() == PartHeader::bytes);
  writer.overwrite(PartHeader::checksum_at, header_hash(room, hash_of_records));
}

tl::expected<PartHeader, PartDamage> read_header(std::span<const std::byte> part) noexcept {
  ByteReader reader(part);
  if (reader.word<uint32_t>() != mark) return tl::unexpected(PartDamage::not_a_part);
  const auto format = reader.word<uint32_t>();
  if (format > PartHeader::present_format) return tl::unexpected(PartDamage::newer_format);
  if (part.size() < PartHeader::bytes) return tl::unexpected(PartDamage::length);
  if (format == 0) return tl::unexpected(PartDamage::not_a_part);
  const auto checksum = reader.word<uint64_t>();
  const std::span<const std::byte> records = part.subspan(PartHeader::bytes);
  uint32_t records_bytes = 0;
  std::memcpy(&records_bytes, part.data() + PartHeader::records_bytes_at, sizeof records_bytes);
  if (records.size() != records_bytes) return tl::unexpected(PartDamage::length);
  if (checksum != header_hash(part.first<PartHeader::bytes>(), records_hash(records))) {
    return tl::unexpected(PartDamage::checksum);
  }
  return read_fields(reader);
}

}  // namespace sluice::state
