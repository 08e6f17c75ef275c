// The body of an answer that its peer reads in parts, as it opens its window.
// Flow:   set(), or append() part by part and end() -> read() -> is_read().
// Bounds: who appends asks has_room() before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::session {

class AnswerBody {
 public:
  static constexpr size_t unread_bytes_max = 64 * 1024;

  void set(std::string_view whole) {
    text_ = whole;
    is_whole_ = true;
  }

  // Appends what `encode(out)` writes, at most `bytes_max`; returns how much that is.
  template <typename Encode>
  size_t append(size_t bytes_max, Encode encode) {
    text_.erase(0, std::exchange(read_bytes_, 0));
    const size_t bytes_before = text_.size();
    text_.resize(bytes_before + bytes_max);
    const size_t bytes = encode(std::as_writable_bytes(std::span(text_)).subspan(bytes_before));
    text_.resize(bytes_before + bytes);
    return bytes;
  }
  void end() noexcept { is_whole_ = true; }

  size_t read(std::span<std::byte> out) noexcept {
    const size_t bytes = std::min(out.size(), unread_bytes());
    if (bytes > 0) std::memcpy(out.data(), text_.data() + read_bytes_, bytes);
    read_bytes_ += bytes;
    return bytes;
  }

  bool has_room() const noexcept { return unread_bytes() < unread_bytes_max; }
  size_t unread_bytes() const noexcept { return text_.size() - read_bytes_; }
  bool is_read() const noexcept { return is_whole_ && unread_bytes() == 0; }

 private:
  std::string text_;
  size_t read_bytes_ = 0;
  bool is_whole_ = false;
};

}  // namespace sluice::session
