// Cuts a connection's bytes at the borders of HTTP/2 frames, so that the session decides between
// two frames whether it takes another one; and bounds how many frames bring no request forward.
// Flow:   received bytes -> next() -> Http2Framing::receive(), whose events report what the frame
//         began or carried -> count().
// Shape:  the preface counts as one frame; a frame may be taken in parts.
// Bounds: frames_per_request for each request, and frames_in_period more in each period; beside
//         them one WINDOW_UPDATE for each bytes_per_update of answers; of RST_STREAM
//         resets_at_once, and resets_per_second more, with those that the peer provokes.
// Source: RFC 9113, 4.1 and 10.5.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::wire {

class Http2Frames {
 public:
  static constexpr size_t head_bytes = 9;
  static constexpr uint32_t frames_per_request = 10;
  static constexpr uint32_t frames_in_period = 2'000;
  static constexpr int64_t period_ms = 10'000;
  // Clients send WINDOW_UPDATE after 4 KiB at the least, for a stream and for the connection.
  static constexpr size_t bytes_per_update = 1'024;
  static constexpr size_t updates_max = 65'536;
  static constexpr int64_t resets_at_once = 500;
  static constexpr int64_t resets_per_second = 50;
  static constexpr size_t end_headers = 4;  // a flag of HEADERS and CONTINUATION

  enum class Type : uint8_t {
    data = 0,
    headers = 1,
    rst_stream = 3,
    settings = 4,
    ping = 6,
    window_update = 8,
    continuation = 9,
    preface = 0xFF,
  };

  // Begins with the preface, or, after an upgrade, too.
  explicit Http2Frames(size_t preface_bytes) noexcept : left_bytes_(preface_bytes) {}

  // The front of `bytes` that belongs to one frame; empty: its head has not arrived whole.
  std::span<const std::byte> next(std::span<const std::byte> bytes) noexcept {
    if (left_bytes_ > 0) return bytes.first(std::min(bytes.size(), left_bytes_));
    if (bytes.size() < head_bytes) return {};
    const auto byte = [bytes](size_t at) { return std::to_integer<size_t>(bytes[at]); };
    left_bytes_ = head_bytes + (byte(0) << 16 | byte(1) << 8 | byte(2));
    type_ = static_cast<Type>(byte(3));
    is_useful_ = false;
    if (is_head()) awaits_continuation_ = (byte(4) & end_headers) == 0;
    return bytes.first(std::min(bytes.size(), left_bytes_));
  }
  // They were received. Returns whether the frame is whole.
  bool taken(size_t bytes) noexcept {
    left_bytes_ -= bytes;
    return left_bytes_ == 0;
  }

  // Of the frame that next() cut last.
  Type type() const noexcept { return type_; }
  bool is_head() const noexcept { return type_ == Type::headers || type_ == Type::continuation; }
  bool is_partial() const noexcept { return left_bytes_ > 0; }
  // Whether a head is not whole, also one that is refused, or trailers.
  bool awaits_continuation() const noexcept { return awaits_continuation_; }
  bool awaits_preface() const noexcept { return type_ == Type::preface && is_partial(); }

  // What the frame that is being received has brought: a new request, or a part of a body. Frames
  // for streams that the session no longer has bring nothing.
  void note_request() noexcept {
    is_useful_ = true;
    useless_left_ = std::min(useless_left_ + frames_per_request, 2 * frames_in_period);
  }
  void note_body() noexcept { is_useful_ = true; }
  // So much of an answer was sent: the peer may send WINDOW_UPDATE for it.
  void note_sent(size_t bytes) noexcept {
    unreturned_bytes_ = std::min(unreturned_bytes_ + bytes, updates_max * bytes_per_update);
  }

  // A whole frame has arrived. False: too many have brought nothing forward.
  bool count(int64_t now_ms) noexcept {
    if (now_ms >= period_ends_ms_) {
      period_ends_ms_ = now_ms + period_ms;
      useless_left_ = std::max(useless_left_, frames_in_period);
    }
    if (type_ == Type::rst_stream) return count_reset(now_ms);
    if (is_useful_) return true;
    if (type_ == Type::window_update && unreturned_bytes_ >= bytes_per_update) {
      unreturned_bytes_ -= bytes_per_update;
      return true;
    }
    if (useless_left_ == 0) return false;
    --useless_left_;
    return true;
  }

  // A stream was reset by the peer, or because of its error. False: too many were.
  bool count_reset(int64_t now_ms) noexcept {
    resets_spent_ms_ = std::max(resets_spent_ms_, now_ms) + ms_per_reset;
    return resets_spent_ms_ - now_ms <= resets_at_once * ms_per_reset;
  }

 private:
  static constexpr int64_t ms_per_reset = 1'000 / resets_per_second;

  size_t left_bytes_;
  Type type_ = Type::preface;
  bool is_useful_ = true;  // as the preface is
  bool awaits_continuation_ = false;
  uint32_t useless_left_ = frames_in_period;
  size_t unreturned_bytes_ = 0;
  int64_t period_ends_ms_ = 0;
  // The time until which resets are spent: each adds its part of a second.
  int64_t resets_spent_ms_ = 0;
};

}  // namespace sluice::wire
