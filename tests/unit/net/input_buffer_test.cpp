// Goal: bytes come out as they went in, aligned, and nothing moves while a turn's entry points at
//       it.
// Method: appends and consumes by hand, comparing addresses and contents.
#include "net/input_buffer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace sluice::net {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class InputBufferTest : public ::testing::Test {
 protected:
  alignas(8) std::byte memory_[64] = {};
  InputBuffer buffer_{memory_};
};

TEST_F(InputBufferTest, returns_the_appended_bytes) {
  ASSERT_TRUE(buffer_.append(bytes_of("abc")));
  ASSERT_TRUE(buffer_.append(bytes_of("de")));
  EXPECT_EQ(text_of(buffer_.unparsed()), "abcde");
  buffer_.consume(2);
  EXPECT_EQ(text_of(buffer_.unparsed()), "cde");
}

TEST_F(InputBufferTest, keeps_consumed_bytes_where_they_are_until_compacted) {
  ASSERT_TRUE(buffer_.append(bytes_of("first")));
  const std::byte* first = buffer_.unparsed().data();
  buffer_.consume(5);
  ASSERT_TRUE(buffer_.append(bytes_of("second")));
  EXPECT_EQ(text_of({first, 5}), "first");
  EXPECT_EQ(text_of(buffer_.unparsed()), "second");
}

TEST_F(InputBufferTest, starts_a_new_request_aligned) {
  ASSERT_TRUE(buffer_.append(bytes_of("abc")));
  buffer_.consume(3);
  ASSERT_TRUE(buffer_.append(bytes_of("def")));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer_.unparsed().data()) % 8, 0U);
}

TEST_F(InputBufferTest, refuses_bytes_that_do_not_fit_and_keeps_the_others) {
  ASSERT_TRUE(buffer_.append(bytes_of(std::string(60, 'x'))));
  EXPECT_FALSE(buffer_.append(bytes_of("12345")));
  EXPECT_EQ(buffer_.unparsed().size(), 60U);
}

TEST_F(InputBufferTest, regains_room_by_compacting) {
  ASSERT_TRUE(buffer_.append(bytes_of(std::string(60, 'x') + "tail")));
  buffer_.consume(60);
  EXPECT_FALSE(buffer_.append(bytes_of("more")));
  buffer_.compact();
  ASSERT_TRUE(buffer_.append(bytes_of("more")));
  EXPECT_EQ(text_of(buffer_.unparsed()), "tailmore");
}

TEST_F(InputBufferTest, refuses_when_alignment_leaves_no_room) {
  ASSERT_TRUE(buffer_.append(bytes_of(std::string(62, 'x'))));
  buffer_.consume(62);
  EXPECT_FALSE(buffer_.append(bytes_of("y")));
  buffer_.compact();
  EXPECT_TRUE(buffer_.append(bytes_of("y")));
  EXPECT_EQ(text_of(buffer_.unparsed()), "y");
}

}  // namespace
}  // namespace sluice::net
