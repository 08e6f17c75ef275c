// Goal: the prepared frames hold every question once, with ids in order. Method: they are read
// back with the Cap'n Proto library.
#include "bench/load/frame_set.hpp"

#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sluicegate.capnp.h"

namespace sluice::load {
namespace {

struct ReadBack {
  ReadBack(const FrameSet& frames, size_t index) {
    const auto bytes = frames.bytes_of(index, index + 1);
    message = std::make_unique<capnp::FlatArrayMessageReader>(kj::ArrayPtr<const capnp::word>(
        reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / sizeof(capnp::word)));
    frame = message->getRoot<schema::ClientFrame>();
  }
  std::unique_ptr<capnp::FlatArrayMessageReader> message;
  schema::ClientFrame::Reader frame;
};

TEST(FrameSet, holds_every_key_and_numbers_its_frames) {
  const FrameSet frames{{.batch = 64, .keys = 1'000, .key_bytes = 9}, 1};
  ASSERT_EQ(frames.count(), 16u);
  std::set<std::string> keys;
  for (size_t i = 0; i < frames.count(); ++i) {
    const ReadBack read{frames, i};
    EXPECT_EQ(read.frame.getId(), i + 1);
    const auto acquire = read.frame.getAcquire();
    ASSERT_EQ(acquire.getKeySizes().size(), frames.entries_of(i));
    EXPECT_FALSE(acquire.hasCosts());
    const auto blob = acquire.getKeys().asChars();
    for (size_t at = 0; at < blob.size(); at += 9) keys.emplace(blob.begin() + at, 9);
  }
  EXPECT_EQ(keys.size(), 1'000u);
  EXPECT_EQ(frames.entries_of(15), 1'000u - 15 * 64);
}

TEST(FrameSet, asks_for_the_denied_share_by_cost) {
  const FrameSet frames{{.batch = 100, .keys = 100, .denied_share = 0.25}, 1};
  const ReadBack read{frames, 0};
  size_t denied = 0;
  for (const uint32_t cost : read.frame.getAcquire().getCosts()) {
    denied += cost == denied_cost ? 1 : 0;
  }
  EXPECT_EQ(denied, 25u);
}

TEST(FrameSet, counts_the_keys_of_the_frames_really_sent) {
  const FrameSet frames{{.batch = 10, .keys = 100}, 1};
  EXPECT_EQ(frames.distinct_keys(3, 2), 20u);
  EXPECT_EQ(frames.distinct_keys(9, 3), 30u);
  EXPECT_EQ(frames.distinct_keys(0, 1'000), 100u);
}

TEST(FrameSet, without_questions_has_no_frames) {
  const FrameSet frames{{.batch = 10, .keys = 100}, std::vector<Question>{}};
  EXPECT_EQ(frames.count(), 0u);
  EXPECT_EQ(frames.bytes(), 0u);
  EXPECT_EQ(frames.distinct_keys(0, 0), 0u);
}

TEST(FrameSet, few_keys_still_make_as_many_frames_as_asked_for) {
  const FrameSet frames{{.batch = 256, .keys = 3}, 64};
  EXPECT_GE(frames.count(), 64u);
  EXPECT_EQ(frames.distinct_keys(0, 1), 3u);
}

}  // namespace
}  // namespace sluice::load
