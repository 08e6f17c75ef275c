// Reads the frames that the server sends on a connection of HTTP/2, as far as they end something.
// Flow:   bytes of a send -> add() -> ConnectionWatch.
// Shape:  before the frames may come an answer of HTTP/1.1: 101 to an upgrade; any other answer
//         means that no frames follow.
// Source: RFC 9113, 4.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::simulation {

class SentFrames {
 public:
  // Returns whether a stream's answer ends in these bytes.
  bool add(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!skip_http1()) return false;
    bool ends_stream = false;
    size_t at = 0;
    while (bytes_.size() - at >= head_bytes) {
      const auto byte = [&](size_t index) { return static_cast<uint8_t>(bytes_[at + index]); };
      const size_t size = head_bytes + (size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2));
      if (bytes_.size() - at < size) break;
      const uint8_t type = byte(3);
      const bool is_part = type == data || type == headers;
      ends_stream |= type == rst_stream || (is_part && (byte(4) & end_stream) != 0);
      if (type == goaway) ++goodbyes_;
      at += size;
    }
    bytes_.erase(0, at);
    return ends_stream;
  }

  uint32_t goodbyes() const { return goodbyes_; }

 private:
  static constexpr size_t head_bytes = 9;
  static constexpr uint8_t data = 0;
  static constexpr uint8_t headers = 1;
  static constexpr uint8_t rst_stream = 3;
  static constexpr uint8_t goaway = 7;
  static constexpr uint8_t end_stream = 1;

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
  uint32_t goodbyes_ = 0;
};

}  // namespace sluice::simulation
