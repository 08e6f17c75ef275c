// Goal: frames in the standard layout are recognised without the library, others are not.
// capnp_codec_decode_test.cpp tests that both ways read the same.
#include "wire/standard_frame.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/support/golden_files.hpp"

namespace sluice::wire {
namespace {

TEST(StandardFrame, recognises_the_frames_of_the_fast_path) {
  for (const char* name : {"acquire_one",
                           "acquire_256",
                           "acquire_columns",
                           "acquire_may_wait",
                           "acquire_none",
                           "acquire_by_handle",
                           "acquire_by_handle_columns",
                           "acquire_by_handle_none",
                           "forward",
                           "forward_256",
                           "forward_none",
                           "forward_columns",
                           "forward_waits",
                           "reserve_one",
                           "reserve_columns",
                           "reserve_none",
                           "reserve_256",
                           "settle",
                           "settle_columns",
                           "settle_none",
                           "cancel",
                           "extend",
                           "record",
                           "record_columns",
                           "consume",
                           "consume_columns"}) {
    EXPECT_TRUE(read_standard_frame(test::golden_frame("ClientFrame", name).bytes())) << name;
  }
}

// Their structs lack pointers at the end.
TEST(StandardFrame, recognises_frames_of_older_clients) {
  for (const char* name : {"older_acquire", "older_acquire_without_window"}) {
    EXPECT_TRUE(read_standard_frame(test::golden_frame("ClientFrame", name).bytes())) << name;
  }
}

TEST(StandardFrame, recognises_no_other_frames) {
  for (const char* name :
       {"hello", "release", "ping", "intern", "newer_acquire", "segments_acquire", "withdraw",
        "segments_reserve", "check", "usage", "quota_put", "reset", "refund", "topology"}) {
    EXPECT_FALSE(read_standard_frame(test::golden_frame("ClientFrame", name).bytes())) << name;
  }
}

// The library reads columns that overlap or come in another order.
TEST(StandardFrame, requires_columns_in_order) {
  const auto& golden = test::golden_frame("ClientFrame", "acquire_columns");
  std::vector<uint64_t> words(golden.bytes().size() / 8);
  std::memcpy(words.data(), golden.bytes().data(), golden.bytes().size());
  constexpr size_t costs_pointer = 8;
  ASSERT_TRUE(read_standard_frame(std::as_bytes(std::span(words))));
  for (const int64_t words_off : {-1, 1'000, -1'000}) {
    std::vector<uint64_t> moved = words;
    moved[costs_pointer] += static_cast<uint64_t>(words_off * 4);
    EXPECT_FALSE(read_standard_frame(std::as_bytes(std::span(moved)))) << words_off;
  }
}

TEST(StandardFrame, refuses_a_frame_that_is_cut_short) {
  for (const char* name : {"acquire_by_handle", "reserve_columns", "settle"}) {
    const auto& golden = test::golden_frame("ClientFrame", name);
    std::vector<uint64_t> words(golden.bytes().size() / 8);
    std::memcpy(words.data(), golden.bytes().data(), golden.bytes().size());
    for (size_t count = 1; count < words.size(); ++count) {
      EXPECT_FALSE(read_standard_frame(std::as_bytes(std::span(words).first(count))))
          << name << ' ' << count;
    }
  }
}

}  // namespace
}  // namespace sluice::wire
