// Reads the frames that the server sends on a connection of HTTP/2.
// Flow:   bytes of a send -> FrameCutter -> SentFrames -> ConnectionWatch.
// Shape:  before the frames may come an answer of HTTP/1.1: 101 to an upgrade; any other answer
//         means that no frames follow.
// Source: RFC 9113, 4.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace sluice::simulation {

struct SentFrame {
  enum Type : uint8_t { data = 0, headers = 1, rst_stream = 3, settings = 4, goaway = 7 };

  bool ends_answer() const {
    constexpr uint8_t end_stream = 1;
    return (type == data || type == headers) && (flags & end_stream) != 0;
  }
  uint32_t word(size_t at) const { return word_of(payload.substr(at)); }

  static uint32_t word_of(std::string_view bytes) {
    const auto byte = [&](size_t at) { return uint32_t{static_cast<uint8_t>(bytes[at])}; };
    return byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
  }

  uint8_t type;
  uint8_t flags;
  int32_t stream;
  std::string_view payload;
};

// Cuts a connection's bytes into frames.
class FrameCutter {
 public:
  template <typename OnFrame>
  void add(std::span<const std::byte> bytes, OnFrame on_frame) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!skip_http1()) return;
    std::string_view rest = bytes_;
    while (rest.size() >= head_bytes) {
      const size_t size = SentFrame::word_of(rest) >> 8;
      if (rest.size() - head_bytes < size) break;
      on_frame(SentFrame{.type = static_cast<uint8_t>(rest[3]),
                         .flags = static_cast<uint8_t>(rest[4]),
                         .stream = static_cast<int32_t>(SentFrame::word_of(rest.substr(5))),
                         .payload = rest.substr(head_bytes, size)});
      rest.remove_prefix(head_bytes + size);
    }
    bytes_.erase(0, bytes_.size() - rest.size());
  }

 private:
  static constexpr size_t head_bytes = 9;

  // Whether frames may begin.
  bool skip_http1() {
    if (has_frames_) return true;
    constexpr std::string_view http1 = "HTTP/1.1 ";
    if (bytes_.size() < http1.size()) return false;
    if (bytes_.starts_with(http1)) {
      const size_t end = bytes_.find("\r\n\r\n");
      const bool is_upgrade = bytes_.starts_with("HTTP/1.1 101 ");
      if (!is_upgrade || end == std::string::npos) return false;
      bytes_.erase(0, end + 4);
    }
    has_frames_ = true;
    return true;
  }

  std::string bytes_;
  bool has_frames_ = false;
};

class SentFrames {
 public:
  // Returns whether a stream's answer ends in these bytes.
  bool add(std::span<const std::byte> bytes) {
    bool ends_stream = false;
    cutter_.add(bytes, [&](const SentFrame& frame) {
      has_begun_ = true;
      if (frame.type == SentFrame::rst_stream) resets_.insert(frame.stream);
      if (frame.type == SentFrame::goaway) note_goodbye(static_cast<int32_t>(frame.word(0)));
      ends_stream |= frame.type == SentFrame::rst_stream || frame.ends_answer();
    });
    return ends_stream;
  }

  bool has_begun() const { return has_begun_; }
  // GOAWAY with the highest number of all, with which a drain begins; or any.
  bool announced_end() const { return announced_end_; }
  // GOAWAY's, behind which the server serves none.
  std::optional<int32_t> last_stream() const { return last_stream_; }
  bool has_reset(int32_t stream) const { return resets_.contains(stream); }

 private:
  void note_goodbye(int32_t last) {
    announced_end_ = true;
    if (last != INT32_MAX) last_stream_ = last;
  }

  FrameCutter cutter_;
  bool has_begun_ = false;
  bool announced_end_ = false;
  std::optional<int32_t> last_stream_;
  std::set<int32_t> resets_;
};

}  // namespace sluice::simulation
