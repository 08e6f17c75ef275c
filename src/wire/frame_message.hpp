// A frame as a message of the Cap'n Proto library, which checks every pointer when it follows it.
// Errors: kj exceptions, from root() on.
// Lives:  readers are valid as long as the message and the frame.
#pragma once

#include <sluicegate.capnp.h>

#include <capnp/message.h>

#include <array>
#include <cstring>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::wire {

class FrameMessage {
 public:
  explicit FrameMessage(Frame frame)
      : segments_(frame), message_({segments_.parts.data(), segments_.count}, options_for(frame)) {}

  template <typename Root>
  typename Root::Reader root() {
    return message_.getRoot<Root>();
  }

 private:
  using word = capnp::word;

  // By the frame's segment table; read_frame() has checked that the sizes add up.
  struct Segments {
    std::array<kj::ArrayPtr<const word>, limits::frame_segments_max> parts;
    size_t count;

    explicit Segments(Frame frame) noexcept {
      uint32_t last_segment;
      std::memcpy(&last_segment, frame.data(), sizeof(last_segment));
      count = size_t{last_segment} + 1;
      ASSERT(count <= parts.size());

      size_t offset = segment_table_bytes(count);
      for (size_t index = 0; index < count; ++index) {
        uint32_t words_count;
        std::memcpy(&words_count, frame.data() + 4 * (index + 1), sizeof(words_count));
        parts[index] = {reinterpret_cast<const word*>(frame.data() + offset), words_count};
        offset += words_count * sizeof(word);
      }
      ASSERT(offset == frame.size());
    }
  };

  // The decoder fetches every list once, so it traverses a frame once; the limit is twice that, for
  // columns that share their bytes and for the tags of lists. That is too little for an attack with
  // amplifying pointers.
  static capnp::ReaderOptions options_for(Frame frame) noexcept {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 2 * (frame.size() / sizeof(word)) + 64;
    options.nestingLimit = 8;
    return options;
  }

  const Segments segments_;
  capnp::SegmentArrayMessageReader message_;
};

}  // namespace sluice::wire
