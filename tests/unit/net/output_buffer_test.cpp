// Goal: bytes in flight stay untouched while more is written.
// Method: writes, takes for sending and writes again, comparing contents.
#include "net/output_buffer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace sluice::net {
namespace {

std::string written_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class OutputBufferTest : public ::testing::Test {
 protected:
  void write(const std::string& text) {
    std::memcpy(buffer_.room(text.size()).data(), text.data(), text.size());
    buffer_.commit(text.size());
  }

  std::byte first_[16] = {};
  std::byte second_[16] = {};
  OutputBuffer buffer_{first_, second_};
};

TEST_F(OutputBufferTest, takes_everything_written_at_once) {
  write("ab");
  write("cd");
  EXPECT_EQ(written_text(buffer_.take_for_sending()), "abcd");
  EXPECT_TRUE(buffer_.in_flight());
  EXPECT_EQ(buffer_.unsent_bytes(), 0U);
}

TEST_F(OutputBufferTest, leaves_bytes_in_flight_untouched) {
  write("flying");
  const auto flying = buffer_.take_for_sending();
  write("next");
  EXPECT_EQ(written_text(flying), "flying");
  buffer_.sent();
  EXPECT_EQ(written_text(buffer_.take_for_sending()), "next");
}

TEST_F(OutputBufferTest, shows_written_bytes_and_bytes_in_flight) {
  write("flying");
  EXPECT_EQ(written_text(buffer_.written()), "flying");
  EXPECT_EQ(buffer_.sends_count(), 0U);
  buffer_.take_for_sending();
  write("next");
  EXPECT_EQ(written_text(buffer_.sending()), "flying");
  EXPECT_EQ(written_text(buffer_.written()), "next");
  EXPECT_EQ(buffer_.sends_count(), 1U);
  buffer_.sent();
  EXPECT_EQ(written_text(buffer_.sending()), "");
}

TEST_F(OutputBufferTest, is_empty_only_when_nothing_waits_or_is_in_flight) {
  EXPECT_TRUE(buffer_.empty());
  write("x");
  EXPECT_FALSE(buffer_.empty());
  buffer_.take_for_sending();
  EXPECT_FALSE(buffer_.empty());
  buffer_.sent();
  EXPECT_TRUE(buffer_.empty());
}

TEST_F(OutputBufferTest, remembers_how_much_memory_it_touched) {
  write("12345678");
  buffer_.take_for_sending();
  buffer_.sent();
  EXPECT_EQ(buffer_.peak_bytes(), 8U);
  buffer_.reset_peak();
  EXPECT_EQ(buffer_.peak_bytes(), 0U);
}

}  // namespace
}  // namespace sluice::net
