// Goal: the prepared frames hold every entry once, with ids in order. Method: they are read
// back with the Cap'n Proto library.
#include "load/frame_set.hpp"

#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>
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

Stream stream_of(const Options& options) {
  return {key_sequence(options, 1), options.batch};
}

TEST(FrameSet, holds_every_key_and_numbers_its_frames) {
  const Options options{.batch = 64, .keys = 1'000, .key_bytes = 9};
  const Stream stream = stream_of(options);
  const FrameSet frames{options, stream};
  ASSERT_EQ(frames.count(), 16u);
  std::set<std::string> keys;
  for (size_t i = 0; i < frames.count(); ++i) {
    const ReadBack read{frames, i};
    EXPECT_EQ(read.frame.getId(), i + 1);
    const auto acquire = read.frame.getAcquire();
    ASSERT_EQ(acquire.getKeySizes().size(), stream.frame(i).size());
    EXPECT_FALSE(acquire.hasCosts());
    const auto blob = acquire.getKeys().asChars();
    for (size_t at = 0; at < blob.size(); at += 9) keys.emplace(blob.begin() + at, 9);
  }
  EXPECT_EQ(keys.size(), 1'000u);
}

TEST(FrameSet, holds_the_handle_of_every_question) {
  const Options options{.batch = 64, .keys = 1'000, .handles = true};
  const Stream stream = stream_of(options);
  HandleTable handles{stream.planned(), options.keys};
  std::vector<uint32_t> given;
  for (const uint32_t key : handles.keys()) given.push_back(key + 7);
  handles.add(given);
  const FrameSet frames{options, stream, &handles};
  ASSERT_EQ(frames.count(), 16u);
  for (size_t i = 0; i < frames.count(); ++i) {
    const ReadBack read{frames, i};
    EXPECT_EQ(read.frame.getId(), i + 1);
    const auto acquire = read.frame.getAcquireByHandle();
    EXPECT_FALSE(acquire.hasCosts() || acquire.hasMaxRequests() || acquire.hasEntryFlags());
    const auto planned = stream.frame(i);
    ASSERT_EQ(acquire.getHandles().size(), planned.size());
    for (unsigned entry = 0; entry < planned.size(); ++entry) {
      EXPECT_EQ(acquire.getHandles()[entry], planned[entry].key + 7);
    }
  }
}

TEST(FrameSet, with_few_keys_asks_for_the_denied_share_by_cost) {
  const Options options{.batch = 100, .keys = 100, .denied_share = 0.25};
  const FrameSet frames{options, stream_of(options)};
  const ReadBack read{frames, 0};
  size_t denied = 0;
  for (const uint32_t cost : read.frame.getAcquire().getCosts()) {
    denied += cost == denied_cost ? 1 : 0;
  }
  EXPECT_EQ(denied, 25u);
}

TEST(FrameSet, with_many_keys_its_frames_are_plain_whatever_is_denied) {
  const Options options{.batch = 100, .keys = 1'000, .denied_share = 0.25};
  const FrameSet frames{options, stream_of(options)};
  EXPECT_FALSE(ReadBack(frames, 0).frame.getAcquire().hasCosts());
}

TEST(FrameSet, without_questions_has_no_frames) {
  const Options options{.batch = 10, .keys = 100};
  const FrameSet frames{options, Stream{{}, 10}};
  EXPECT_EQ(frames.count(), 0u);
  EXPECT_EQ(frames.bytes(), 0u);
}

TEST(FrameSet, refuses_frames_that_would_take_too_much_memory) {
  const Options options{.batch = 1, .keys = 200'000, .key_bytes = 65'535};
  const Stream stream = stream_of(options);
  try {
    const FrameSet frames{options, stream};
    FAIL() << "12 GiB were prepared";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("would take 12 GiB"), std::string::npos)
        << error.what();
  }
}

TEST(FrameSet, no_frame_exceeds_the_announced_limit) {
  for (const bool handles : {false, true}) {
    const Options options{.batch = 77, .keys = 77, .denied_share = 0.5, .handles = handles};
    const Stream stream = stream_of(options);
    HandleTable table{stream.planned(), options.keys};
    table.add(std::vector<uint32_t>(77));
    const FrameSet frames{options, stream, handles ? &table : nullptr};
    EXPECT_EQ(frames.bytes_of(0, 1).size(), frame_bytes_max(options));
  }
}

}  // namespace
}  // namespace sluice::load
