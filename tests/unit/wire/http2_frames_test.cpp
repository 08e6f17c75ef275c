// Goal: bytes are cut at the borders of frames however they arrive, and useless frames run out.
// Method: frames in every split; floods with and without requests in between.
#include "wire/http2_frames.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/http2_client.hpp"

namespace sluice::wire {
namespace {

using support::http2_frame;
using Type = Http2Frames::Type;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Http2Frames, end_at_their_borders_however_they_arrive) {
  const std::string stream = std::string(5, 'p') + http2_frame(1, 0, 1, "head") +
                             http2_frame(0, 0, 1, std::string(300, 'b')) + http2_frame(4, 0, 0);
  const std::vector<size_t> sizes{5, 13, 309, 9};
  for (size_t most = 1; most <= stream.size(); ++most) {
    Http2Frames frames{5};
    std::vector<size_t> found;
    size_t whole = 0;
    for (size_t begin = 0, end = 0; begin < stream.size();) {
      end = std::min(std::max(end, begin) + most, stream.size());
      const auto part = frames.next(bytes_of(stream).subspan(begin, end - begin));
      begin += part.size();
      whole += part.size();
      if (!part.empty() && frames.taken(part.size())) found.push_back(std::exchange(whole, 0));
    }
    EXPECT_EQ(found, sizes) << most;
    EXPECT_FALSE(frames.is_partial());
  }
}

TEST(Http2Frames, await_the_whole_preface) {
  Http2Frames frames{5};
  EXPECT_TRUE(frames.awaits_preface());
  frames.taken(frames.next(bytes_of("prefa")).size() - 1);
  EXPECT_TRUE(frames.awaits_preface());
  frames.taken(frames.next(bytes_of("e")).size());
  EXPECT_FALSE(frames.awaits_preface());
  const std::string frame = http2_frame(4, 0, 0);
  frames.next(bytes_of(frame));
  EXPECT_FALSE(frames.awaits_preface());
}

TEST(Http2Frames, know_a_head) {
  Http2Frames frames{0};
  for (const auto& [type, is_head] :
       {std::pair{1, true}, std::pair{9, true}, std::pair{0, false}, std::pair{6, false}}) {
    const std::string frame = http2_frame(static_cast<uint8_t>(type), 0, 1);
    frames.taken(frames.next(bytes_of(frame)).size());
    EXPECT_EQ(frames.is_head(), is_head) << type;
  }
}

TEST(Http2Frames, know_whether_a_head_is_whole) {
  Http2Frames frames{0};
  for (const auto& [type, flags, awaits] :
       {std::tuple{1, 1, true}, std::tuple{9, 0, true}, std::tuple{9, 4, false},
        std::tuple{1, 5, false}, std::tuple{0, 1, false}}) {
    const std::string frame =
        http2_frame(static_cast<uint8_t>(type), static_cast<uint8_t>(flags), 1);
    frames.taken(frames.next(bytes_of(frame)).size());
    EXPECT_EQ(frames.awaits_continuation(), awaits) << type << ' ' << flags;
  }
}

class Http2FramesCountTest : public ::testing::Test {
 protected:
  // Whether this frame is still taken.
  bool take(Type type, const std::string& payload = {}) {
    receive(type, payload);
    return frames_.count(now_ms_);
  }
  void receive(Type type, const std::string& payload) {
    const std::string frame = http2_frame(static_cast<uint8_t>(type), 0, 1, payload);
    frames_.taken(frames_.next(bytes_of(frame)).size());
  }
  bool take_request() {
    receive(Type::headers, "head");
    frames_.note_request();
    return frames_.count(now_ms_);
  }
  bool take_body() {
    receive(Type::data, "b");
    frames_.note_body();
    return frames_.count(now_ms_);
  }
  uint32_t taken_until_refused(Type type) {
    uint32_t count = 0;
    while (take(type, "x")) ++count;
    return count;
  }
  uint32_t useless_until_refused() { return taken_until_refused(Type::ping); }

  Http2Frames frames_{0};
  int64_t now_ms_ = 1'000;
};

TEST_F(Http2FramesCountTest, takes_a_bounded_number_of_useless_ones_in_a_period) {
  EXPECT_EQ(useless_until_refused(), Http2Frames::frames_in_period);
  now_ms_ += Http2Frames::period_ms - 1;
  EXPECT_FALSE(take(Type::settings));
  ++now_ms_;
  EXPECT_EQ(useless_until_refused(), Http2Frames::frames_in_period);
}

TEST_F(Http2FramesCountTest, takes_more_with_every_request) {
  EXPECT_EQ(useless_until_refused(), Http2Frames::frames_in_period);
  for (int requests = 0; requests < 3; ++requests) EXPECT_TRUE(take_request());
  EXPECT_EQ(useless_until_refused(), 3 * Http2Frames::frames_per_request);
}

TEST_F(Http2FramesCountTest, saves_no_more_than_twice_a_period_gives) {
  for (int requests = 0; requests < 10'000; ++requests) take_request();
  EXPECT_EQ(useless_until_refused(), 2 * Http2Frames::frames_in_period);
}

TEST_F(Http2FramesCountTest, takes_any_number_that_carry_a_body) {
  for (uint32_t count = 0; count < 2 * Http2Frames::frames_in_period; ++count) {
    ASSERT_TRUE(take_body());
  }
  EXPECT_EQ(useless_until_refused(), Http2Frames::frames_in_period);
}

// That of a stream that has ended, which nghttp2 ignores; padding alone.
TEST_F(Http2FramesCountTest, takes_a_bounded_number_that_begin_or_carry_nothing) {
  for (const Type type : {Type::headers, Type::data, Type::continuation, Type::settings}) {
    EXPECT_EQ(taken_until_refused(type), Http2Frames::frames_in_period);
    now_ms_ += Http2Frames::period_ms;
  }
}

TEST_F(Http2FramesCountTest, takes_updates_of_windows_for_what_was_sent) {
  EXPECT_EQ(useless_until_refused(), Http2Frames::frames_in_period);
  frames_.note_sent(3 * Http2Frames::bytes_per_update - 1);
  EXPECT_FALSE(take(Type::ping)) << "an answer is no reason for it";
  EXPECT_EQ(taken_until_refused(Type::window_update), 2u);
  frames_.note_sent(1);
  EXPECT_EQ(taken_until_refused(Type::window_update), 1u);
  for (int gibibytes = 0; gibibytes < 2; ++gibibytes) frames_.note_sent(1U << 30);
  EXPECT_EQ(taken_until_refused(Type::window_update), Http2Frames::updates_max);
}

TEST_F(Http2FramesCountTest, takes_resets_at_once_and_so_many_a_second) {
  const auto resets_until_refused = [&] {
    int64_t count = 0;
    while (take(Type::rst_stream, "code")) ++count;
    return count;
  };
  EXPECT_EQ(resets_until_refused(), Http2Frames::resets_at_once);
  now_ms_ += 1'000;
  EXPECT_EQ(resets_until_refused(), Http2Frames::resets_per_second - 1) << "refused ones count";
  now_ms_ += 60'000;
  EXPECT_EQ(resets_until_refused(), Http2Frames::resets_at_once);
  EXPECT_TRUE(take(Type::ping, "x"));
}

}  // namespace
}  // namespace sluice::wire
