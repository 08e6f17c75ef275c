// Goal: a stream's frames come in order, over and over, and it knows which keys were asked. Method:
// frames are taken by hand.
#include "load/stream.hpp"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

// 100 keys in frames of 10.
Stream stream_of_ten_frames() {
  return {key_sequence({.keys = 100}, 1), 10};
}

size_t asked_keys(const Stream& stream) {
  std::vector<bool> asked(100);
  stream.mark_asked_keys(asked);
  return static_cast<size_t>(std::ranges::count(asked, true));
}

void ask(Stream& stream, int frames) {
  for (int i = 0; i < frames; ++i) stream.note_asked();
}

TEST(Stream, the_last_frame_has_what_is_left) {
  const Stream stream{key_sequence({.keys = 25}, 1), 10};
  ASSERT_EQ(stream.frames_count(), 3u);
  EXPECT_EQ(stream.frame(1).size(), 10u);
  EXPECT_EQ(stream.frame(2).size(), 5u);
  EXPECT_EQ(stream.begin_of(2), 20u);
}

TEST(Stream, begins_anew_behind_the_last_frame) {
  Stream stream = stream_of_ten_frames();
  ask(stream, 9);
  EXPECT_EQ(stream.next_frame(), 9u);
  ask(stream, 1);
  EXPECT_EQ(stream.next_frame(), 0u);
}

TEST(Stream, counts_the_keys_of_the_frames_really_asked) {
  Stream stream = stream_of_ten_frames();
  EXPECT_EQ(asked_keys(stream), 0u);
  ask(stream, 2);
  EXPECT_EQ(asked_keys(stream), 20u);
  stream.restart_counters();
  EXPECT_EQ(asked_keys(stream), 0u);
  ask(stream, 9);  // over the end
  EXPECT_EQ(asked_keys(stream), 90u);
  ask(stream, 500);
  EXPECT_EQ(asked_keys(stream), 100u);
}

TEST(Stream, knows_when_every_frame_was_answered) {
  Stream stream = stream_of_ten_frames();
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(stream.every_frame_answered());
    stream.note_answered();
  }
  EXPECT_TRUE(stream.every_frame_answered());
  stream.restart_counters();
  EXPECT_FALSE(stream.every_frame_answered());
}

TEST(Stream, without_questions_has_no_frames) {
  const Stream stream{{}, 10};
  EXPECT_EQ(stream.frames_count(), 0u);
  EXPECT_TRUE(stream.every_frame_answered());
}

}  // namespace
}  // namespace sluice::load
