// Goal: a part is refused unless every bit of it is the one that was written; its layout stays.
// Method: a header over a few bytes; each bit changed; fields that cannot be, with a checksum that
// is right.
#include "state/part.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>

#include "support/guarded_buffer.hpp"
#include "unit/state/bytes.hpp"
#include "unit/state/samples.hpp"

namespace sluice::state {
namespace {

const Bytes records = bytes_of({1, 2, 3, 4, 5});

PartHeader header_of_records() {
  PartHeader header = sample_header();
  header.table_version = 3;
  header.records_bytes = static_cast<uint32_t>(records.size());
  header.records_count = 2;
  return header;
}

Bytes part_with(const PartHeader& header) {
  Bytes part(PartHeader::bytes);
  write_header(std::span<std::byte, PartHeader::bytes>(part.data(), part.size()), header,
               records_hash(records));
  part.insert(part.end(), records.begin(), records.end());
  return part;
}

PartDamage damage_of(std::span<const std::byte> part) {
  const auto header = read_header(part);
  EXPECT_FALSE(header);
  return header ? PartDamage{} : header.error();
}

TEST(Part, has_the_header_that_was_written) {
  const auto read = read_header(part_with(header_of_records()));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, header_of_records());
  EXPECT_EQ(read->latest().ns, sample_moment.ns);
  EXPECT_EQ(read->latest().wall_ns, sample_moment.wall_ns);
  EXPECT_EQ(read->latest().order, sample_moment.order);
}

// A file that is written today must be read by every later version.
TEST(Part, keeps_its_layout) {
  const Bytes part = part_with(header_of_records());
  const auto word = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, part.data() + at, bytes);
    return value;
  };
  EXPECT_EQ(std::memcmp(part.data(), "SLGP", 4), 0);
  EXPECT_EQ(word(4, 4), 1U);
  EXPECT_EQ(word(8, 8), 7'522'093'687'696'853'395U);
  EXPECT_EQ(word(16, 8), 77U);
  EXPECT_EQ(word(24, 8), static_cast<uint64_t>(sample_moment.ns));
  EXPECT_EQ(word(32, 8), static_cast<uint64_t>(sample_moment.wall_ns - 1));
  EXPECT_EQ(word(40, 8), static_cast<uint64_t>(5 * base::ns_per_day));
  EXPECT_EQ(word(48, 8), 0x0102'0304'0506'0708U);
  EXPECT_EQ(word(56, 8), 9U);
  EXPECT_EQ(word(64, 8), static_cast<uint64_t>(sample_moment.wall_ns));
  EXPECT_EQ(word(72, 8), sample_moment.order);
  EXPECT_EQ(word(80, 8), 1'000U);
  EXPECT_EQ(word(88, 8), 3U);
  EXPECT_EQ(word(96, 4), records.size());
  EXPECT_EQ(word(100, 4), 2U);
  EXPECT_EQ(word(104, 2), 1U);
  EXPECT_EQ(word(106, 2), 4U);
  EXPECT_EQ(word(108, 4), sample_header().file_tag);
}

TEST(Part, is_refused_when_any_bit_of_it_is_another) {
  Bytes part = part_with(header_of_records());
  for (size_t bit = 0; bit < part.size() * 8; ++bit) {
    const std::byte mask{static_cast<uint8_t>(1U << bit % 8)};
    part[bit / 8] ^= mask;
    EXPECT_FALSE(read_header(part)) << bit;
    part[bit / 8] ^= mask;
  }
  EXPECT_TRUE(read_header(part));
}

TEST(Part, is_refused_when_it_is_cut_off_or_longer) {
  Bytes part = part_with(header_of_records());
  test::GuardedBuffer guarded(part.size());
  for (size_t length = 0; length < part.size(); ++length) {
    const PartDamage damage = damage_of(guarded.place(std::span(part).first(length)));
    EXPECT_EQ(damage, length < 4 ? PartDamage::not_a_part : PartDamage::length) << length;
  }
  part.push_back(std::byte{0});
  EXPECT_EQ(damage_of(part), PartDamage::length);
}

TEST(Part, is_refused_for_what_is_wrong_with_it) {
  const Bytes good = part_with(header_of_records());
  const auto changed = [&](size_t at, int value) {
    Bytes part = good;
    part[at] = static_cast<std::byte>(value);
    return damage_of(part);
  };
  EXPECT_EQ(changed(0, 'X'), PartDamage::not_a_part);
  EXPECT_EQ(changed(4, 0), PartDamage::not_a_part);
  EXPECT_EQ(changed(4, 2), PartDamage::newer_format);
  EXPECT_EQ(changed(8, static_cast<int>(good[8]) ^ 1), PartDamage::checksum);
  EXPECT_EQ(changed(96, 6), PartDamage::length);
  EXPECT_EQ(changed(PartHeader::bytes, 9), PartDamage::checksum);
}

// A newer version may have another header.
TEST(Part, of_a_newer_format_is_known_as_such_whatever_follows) {
  Bytes part = bytes_of({'S', 'L', 'G', 'P', 2, 0, 0, 0});
  EXPECT_EQ(damage_of(part), PartDamage::newer_format);
}

TEST(Part, is_refused_with_a_header_that_cannot_be) {
  const std::function<void(PartHeader&)> changes[] = {
      [](PartHeader& header) { header.epoch = 0; },
      [](PartHeader& header) { header.shard = header.shards; },
      [](PartHeader& header) { header.shards = limits::shards_max + 1; },
      [](PartHeader& header) { header.time.state_ns = -1; },
      [](PartHeader& header) { header.time.state_ns = state_ns_max + 1; },
      [](PartHeader& header) { header.time.machine.wall_ns = -1; },
      [](PartHeader& header) { header.time.machine.boot_ns = -1; },
      [](PartHeader& header) { header.calendar_wall_ns = wall_ns_max + 1; },
      [](PartHeader& header) { header.reset_all_order = header.order + 1; },
  };
  for (const auto& change : changes) {
    PartHeader header = header_of_records();
    change(header);
    EXPECT_EQ(damage_of(part_with(header)), PartDamage::header) << &change - changes;
  }
}

TEST(Part, may_have_a_header_at_its_bounds) {
  PartHeader header = header_of_records();
  header.shards = limits::shards_max;
  header.shard = limits::shards_max - 1;
  header.time.state_ns = state_ns_max;
  header.calendar_wall_ns = wall_ns_max;
  header.reset_all_order = header.order;
  EXPECT_TRUE(read_header(part_with(header)));
}

TEST(Part, has_a_text_for_each_damage) {
  std::set<std::string_view> texts;
  for (const PartDamage damage :
       {PartDamage::not_a_part, PartDamage::newer_format, PartDamage::length, PartDamage::checksum,
        PartDamage::header, PartDamage::record}) {
    texts.insert(damage_text(damage));
  }
  EXPECT_EQ(texts.size(), 6U);
}

}  // namespace
}  // namespace sluice::state
