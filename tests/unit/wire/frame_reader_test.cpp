// Goal: frames are cut at exactly the right byte, from any prefix, and never by reading too far.
// Method: every golden frame at every split point, its end at a guard page; and tables by hand.
#include "wire/frame_reader.hpp"

#include <gtest/gtest.h>

#include "base/limits.hpp"
#include "tests/support/golden_files.hpp"
#include "tests/support/guarded_buffer.hpp"

namespace sluice::wire {
namespace {

using base::Complete;
using base::Malformed;
using base::NeedMore;

base::Decoded<Frame> read(std::span<const std::byte> bytes) {
  return read_frame(bytes, limits::frame_bytes_max);
}

// A segment table with these numbers, and nothing behind it.
std::vector<uint32_t> table(std::initializer_list<uint32_t> numbers) {
  return numbers;
}

base::Decoded<Frame> read(const std::vector<uint32_t>& numbers) {
  return read(std::as_bytes(std::span(numbers)));
}

ErrorCode error_of(const base::Decoded<Frame>& outcome) {
  const auto* malformed = std::get_if<Malformed>(&outcome);
  return malformed ? malformed->code : ErrorCode::none;
}

size_t missing_until(const base::Decoded<Frame>& outcome) {
  const auto* need_more = std::get_if<NeedMore>(&outcome);
  return need_more ? need_more->total_bytes : 0;
}

bool is_refused_by_reader(const test::Golden& golden) {
  return golden.is_refused() &&
         (golden.error() == "frameTooLarge" || golden.name == "hostile_no_segments");
}

TEST(FrameReader, cuts_every_golden_frame_whole) {
  for (const char* root : {"ClientFrame", "ServerFrame"}) {
    for (const test::Golden& golden : test::golden_frames(root)) {
      if (is_refused_by_reader(golden)) continue;
      test::GuardedBuffer buffer(golden.bytes().size());
      const auto outcome = read(buffer.place(golden.bytes()));
      const auto* complete = std::get_if<Complete<Frame>>(&outcome);
      ASSERT_NE(complete, nullptr) << golden.name;
      EXPECT_EQ(complete->consumed_bytes, golden.bytes().size()) << golden.name;
      EXPECT_EQ(complete->value.size(), golden.bytes().size()) << golden.name;
    }
  }
}

TEST(FrameReader, needs_more_at_every_split_of_every_golden_frame) {
  for (const char* root : {"ClientFrame", "ServerFrame"}) {
    for (const test::Golden& golden : test::golden_frames(root)) {
      if (is_refused_by_reader(golden)) continue;
      const auto frame = golden.bytes();
      const size_t table_bytes = segment_table_bytes(static_cast<size_t>(frame[0]) + 1);
      test::GuardedBuffer buffer(frame.size());
      for (size_t split = 0; split < frame.size(); ++split) {
        const size_t total_bytes = missing_until(read(buffer.place(frame.first(split))));
        ASSERT_GT(total_bytes, split) << golden.name;
        ASSERT_LE(total_bytes, frame.size()) << golden.name << " at " << split;
        if (split >= table_bytes) {
          ASSERT_EQ(total_bytes, frame.size()) << golden.name << " at " << split;
        }
      }
    }
  }
}

TEST(FrameReader, refuses_hostile_tables_as_soon_as_it_can) {
  size_t refused_count = 0;
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    if (!is_refused_by_reader(golden)) continue;
    ++refused_count;
    const auto frame = golden.bytes();
    test::GuardedBuffer buffer(frame.size());
    bool seen = false;
    for (size_t split = 0; split <= frame.size(); ++split) {
      const auto outcome = read(buffer.place(frame.first(split)));
      ASSERT_FALSE(std::holds_alternative<Complete<Frame>>(outcome)) << golden.name;
      const ErrorCode error = error_of(outcome);
      ASSERT_FALSE(seen && error == ErrorCode::none) << golden.name << ": mended at " << split;
      seen = error != ErrorCode::none;
      if (seen) {
        ASSERT_EQ(error_name(error), golden.error());
      }
    }
    EXPECT_TRUE(seen) << golden.name;
  }
  EXPECT_GE(refused_count, 5u);
}

TEST(FrameReader, does_not_touch_the_next_frame) {
  const auto two_frames = table({0, 1, 0, 0, 0, 5, 0, 0});
  const auto outcome = read(two_frames);
  EXPECT_EQ(std::get<Complete<Frame>>(outcome).consumed_bytes, 16u);
}

TEST(FrameReader, reports_the_length_as_soon_as_the_table_is_complete) {
  EXPECT_EQ(missing_until(read(std::span<const std::byte>())), 8u);
  EXPECT_EQ(missing_until(read(table({0}))), 8u);
  EXPECT_EQ(missing_until(read(table({0, 3}))), 32u);
  EXPECT_EQ(missing_until(read(table({1, 3}))), 16u);
  EXPECT_EQ(missing_until(read(table({1, 3, 4, 0}))), 16u + 56u);
  EXPECT_EQ(missing_until(read(table({7, 1, 1, 1, 1, 1, 1, 1, 1, 0}))), 40u + 64u);
}

TEST(FrameReader, accepts_a_frame_of_no_words) {
  EXPECT_EQ(std::get<Complete<Frame>>(read(table({0, 0}))).consumed_bytes, 8u);
}

TEST(FrameReader, refuses_a_segment_count_that_wraps_around) {
  EXPECT_EQ(error_of(read(table({0xFFFF'FFFF}))), ErrorCode::malformed);
}

TEST(FrameReader, refuses_more_than_eight_segments) {
  EXPECT_EQ(error_of(read(table({7}))), ErrorCode::none);
  EXPECT_EQ(error_of(read(table({8}))), ErrorCode::frame_too_large);
  EXPECT_EQ(error_of(read(table({0xFFFF'FFFE}))), ErrorCode::frame_too_large);
}

TEST(FrameReader, adds_sizes_in_64_bits) {
  EXPECT_EQ(error_of(read(table({1, 0x8000'0000, 0x8000'0001, 0}))), ErrorCode::frame_too_large);
  EXPECT_EQ(error_of(read(table({0, 0xFFFF'FFFF}))), ErrorCode::frame_too_large);
}

TEST(FrameReader, counts_the_table_towards_the_largest_frame) {
  const auto fits = table({0, 3});
  EXPECT_EQ(missing_until(read_frame(std::as_bytes(std::span(fits)), 32)), 32u);
  EXPECT_EQ(error_of(read_frame(std::as_bytes(std::span(fits)), 31)), ErrorCode::frame_too_large);
}

}  // namespace
}  // namespace sluice::wire
