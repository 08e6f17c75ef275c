// Goal: numbers and texts become the bytes that the header describes.
// Method: bytes by hand; every number is read again in byte_reader_test.cpp.
#include "state/byte_writer.hpp"

#include <gtest/gtest.h>

#include "unit/state/bytes.hpp"

namespace sluice::state {
namespace {

TEST(ByteWriter, writes_words_with_the_lowest_byte_first) {
  EXPECT_EQ(written([](ByteWriter& writer) {
              writer.word(uint8_t{1});
              writer.word(uint16_t{0x0203});
              writer.word(uint32_t{0x0405'0607});
              writer.word(uint64_t{0x0809'0A0B'0C0D'0E0F});
            }),
            bytes_of({1, 3, 2, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8}));
}

TEST(ByteWriter, writes_seven_bits_of_a_varint_in_each_byte) {
  const auto varint = [](uint64_t value) {
    return written([value](ByteWriter& writer) { writer.varint(value); });
  };
  EXPECT_EQ(varint(0), bytes_of({0}));
  EXPECT_EQ(varint(0x7F), bytes_of({0x7F}));
  EXPECT_EQ(varint(0x80), bytes_of({0x80, 1}));
  EXPECT_EQ(varint(300), bytes_of({0xAC, 2}));
  EXPECT_EQ(varint(UINT64_MAX),
            bytes_of({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}));
  EXPECT_EQ(varint(UINT64_MAX).size(), varint_bytes_max);
}

TEST(ByteWriter, writes_the_length_of_a_text_before_it) {
  EXPECT_EQ(written([](ByteWriter& writer) {
              writer.text("ab");
              writer.text("");
            }),
            bytes_of({2, 'a', 'b', 0}));
}

TEST(ByteWriter, overwrites_a_word_without_moving_on) {
  EXPECT_EQ(written([](ByteWriter& writer) {
              writer.word(uint16_t{0});
              writer.word(uint8_t{9});
              writer.overwrite(0, uint16_t{0x0102});
              EXPECT_EQ(writer.size(), 3U);
            }),
            bytes_of({2, 1, 9}));
}

TEST(ByteWriter, makes_small_numbers_of_those_near_zero) {
  EXPECT_EQ(zigzag(0), 0U);
  EXPECT_EQ(zigzag(-1), 1U);
  EXPECT_EQ(zigzag(1), 2U);
  EXPECT_EQ(zigzag(INT64_MIN), UINT64_MAX);
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{77}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(from_zigzag(zigzag(value)), value);
  }
}

}  // namespace
}  // namespace sluice::state
