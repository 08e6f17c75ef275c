// Goal: a reader returns what was written, finds every cut and every encoding that a writer does
// not choose, and never reads beyond its bytes.
// Method: values written and read again; every prefix, at a guard page.
#include "state/byte_reader.hpp"

#include <gtest/gtest.h>

#include "support/guarded_buffer.hpp"
#include "unit/state/bytes.hpp"

namespace sluice::state {
namespace {

constexpr uint64_t varints[] = {
    0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, UINT32_MAX, uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX};

bool is_read_whole(ByteReader& reader) {
  return !reader.is_damaged() && reader.left() == 0;
}

TEST(ByteReader, reads_what_was_written) {
  const Bytes bytes = written([](ByteWriter& writer) {
    writer.word(uint8_t{200});
    writer.text("subject");
    for (const uint64_t value : varints) writer.varint(value);
    writer.word(uint64_t{0x1122'3344'5566'7788});
    writer.word(uint16_t{0x9ABC});
  });
  ByteReader reader(bytes);
  EXPECT_EQ(reader.word<uint8_t>(), 200);
  EXPECT_EQ(reader.text(7), "subject");
  for (const uint64_t value : varints) EXPECT_EQ(reader.varint(), value);
  EXPECT_EQ(reader.word<uint64_t>(), 0x1122'3344'5566'7788U);
  EXPECT_EQ(reader.left(), 2U);
  EXPECT_EQ(reader.word<uint16_t>(), 0x9ABC);
  EXPECT_TRUE(is_read_whole(reader));
}

TEST(ByteReader, finds_that_a_value_is_cut_off) {
  const Bytes bytes = written([](ByteWriter& writer) {
    writer.word(uint32_t{1});
    writer.varint(UINT64_MAX);
    writer.text("name");
  });
  test::GuardedBuffer guarded(bytes.size());
  for (size_t length = 0; length <= bytes.size(); ++length) {
    ByteReader reader(guarded.place(std::span(bytes).first(length)));
    reader.word<uint32_t>();
    reader.varint();
    reader.text(100);
    EXPECT_EQ(reader.is_damaged(), length < bytes.size()) << length;
  }
}

TEST(ByteReader, stays_damaged) {
  const Bytes bytes = bytes_of({1, 2, 3});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.word<uint32_t>(), 0U);
  EXPECT_TRUE(reader.is_damaged());
  EXPECT_EQ(reader.word<uint8_t>(), 0);
  EXPECT_EQ(reader.varint(), 0U);
  EXPECT_TRUE(reader.text(9).empty());
  EXPECT_TRUE(reader.rest().empty());
  EXPECT_EQ(reader.left(), 0U);
}

TEST(ByteReader, refuses_a_varint_that_is_longer_than_it_has_to_be) {
  for (const Bytes& bytes : {bytes_of({0x80, 0}), bytes_of({0xFF, 0x80, 0})}) {
    ByteReader reader(bytes);
    EXPECT_EQ(reader.varint(), 0U);
    EXPECT_TRUE(reader.is_damaged());
  }
}

TEST(ByteReader, refuses_a_varint_of_more_than_64_bits) {
  Bytes bytes(varint_bytes_max, std::byte{0xFF});
  bytes.back() = std::byte{2};
  ByteReader too_large(bytes);
  too_large.varint();
  EXPECT_TRUE(too_large.is_damaged());
  bytes.back() = std::byte{0x81};
  bytes.push_back(std::byte{1});
  ByteReader too_long(bytes);
  too_long.varint();
  EXPECT_TRUE(too_long.is_damaged());
}

TEST(ByteReader, refuses_a_text_above_its_bound_or_beyond_the_end) {
  const Bytes bytes = written([](ByteWriter& writer) { writer.text("name"); });
  ByteReader bounded(bytes);
  EXPECT_TRUE(bounded.text(3).empty());
  EXPECT_TRUE(bounded.is_damaged());
  const Bytes endless = written([](ByteWriter& writer) { writer.varint(UINT64_MAX); });
  ByteReader beyond(endless);
  EXPECT_TRUE(beyond.text(SIZE_MAX).empty());
  EXPECT_TRUE(beyond.is_damaged());
}

TEST(ByteReader, returns_the_rest) {
  const Bytes bytes = bytes_of({1, 2, 3});
  ByteReader reader(bytes);
  reader.word<uint8_t>();
  EXPECT_EQ(reader.rest().size(), 2U);
  EXPECT_TRUE(is_read_whole(reader));
  EXPECT_TRUE(reader.rest().empty());
  EXPECT_FALSE(reader.is_damaged());
}

TEST(ByteReader, reads_nothing_of_no_bytes) {
  ByteReader reader({});
  EXPECT_TRUE(is_read_whole(reader));
  EXPECT_EQ(reader.varint(), 0U);
  EXPECT_TRUE(reader.is_damaged());
}

}  // namespace
}  // namespace sluice::state
