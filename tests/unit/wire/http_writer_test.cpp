// Goal: each piece has the format of HTTP, up to the last byte of the buffer and not beyond.
// Method: pieces at the edges of their range; http_codec_reply_test.cpp has whole answers.
#include "wire/http_writer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <string>

namespace sluice::wire {
namespace {

std::string written(const std::function<void(HttpWriter&)>& write) {
  std::array<std::byte, 128> out;
  HttpWriter writer{out};
  write(writer);
  return {reinterpret_cast<const char*>(out.data()), writer.size_bytes()};
}

TEST(HttpWriter, writes_numbers_of_any_size) {
  EXPECT_EQ(written([](HttpWriter& w) { w.decimal(std::numeric_limits<int64_t>::min()); }),
            "-9223372036854775808");
  EXPECT_EQ(written([](HttpWriter& w) { w.decimal_unsigned(UINT64_MAX); }), "18446744073709551615");
  EXPECT_EQ(written([](HttpWriter& w) { w.hexadecimal(UINT64_MAX); }), "ffffffffffffffff");
  EXPECT_EQ(written([](HttpWriter& w) { w.decimal(0); }), "0");
}

TEST(HttpWriter, writes_a_status_of_three_digits) {
  EXPECT_EQ(written([](HttpWriter& w) { w.status(200); }), "200");
  EXPECT_EQ(written([](HttpWriter& w) { w.status(431); }), "431");
  EXPECT_EQ(written([](HttpWriter& w) { w.status(507); }), "507");
}

TEST(HttpWriter, writes_a_date_down_to_the_second) {
  EXPECT_EQ(written([](HttpWriter& w) { w.date(784'111'777'999'999'999); }),
            "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(HttpWriter, writes_the_date_of_each_answer) {
  const auto both = [](int64_t first_ns, int64_t second_ns) {
    return written([&](HttpWriter& w) { w.date(first_ns), w.text("; "), w.date(second_ns); });
  };
  EXPECT_EQ(both(784'111'777'000'000'000, 784'111'778'000'000'000),
            "Sun, 06 Nov 1994 08:49:37 GMT; Sun, 06 Nov 1994 08:49:38 GMT");
  EXPECT_EQ(both(0, 0), "Thu, 01 Jan 1970 00:00:00 GMT; Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(HttpWriter, joins_a_tail_that_was_written_first) {
  std::array<std::byte, 32> out;
  HttpWriter tail{std::span{out}.subspan(8)};
  tail.text("body");
  HttpWriter writer{out};
  writer.text("head ");
  writer.append_tail(8, tail.size_bytes());
  EXPECT_EQ((std::string_view{reinterpret_cast<const char*>(out.data()), writer.size_bytes()}),
            "head body");
}

TEST(HttpWriter, fills_its_buffer_to_the_end) {
  std::array<std::byte, 4> out;
  HttpWriter writer{out};
  writer.text("full");
  writer.text("");
  EXPECT_EQ(writer.size_bytes(), 4u);
}

TEST(HttpWriterDeathTest, stops_at_the_end_of_its_buffer) {
  std::array<std::byte, 4> out;
  HttpWriter writer{out};
  EXPECT_DEATH(writer.text("longer"), "assertion failed");
}

}  // namespace
}  // namespace sluice::wire
