// The body of a request on a stream of HTTP/2, which arrives in parts.
// Flow:   expect() -> add() each part -> end().
// Bounds: kept_bytes_max for all bodies of a connection that are not whole.
// Lives:  as long as its stream.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/limits.hpp"

namespace sluice::session {

class Http2RequestBody {
 public:
  static constexpr size_t kept_bytes_max = 512 * 1024;

  // `connection_bytes` counts what the bodies of the connection have allocated.
  explicit Http2RequestBody(size_t& connection_bytes) noexcept
      : connection_bytes_(connection_bytes) {}
  ~Http2RequestBody() { release(); }
  Http2RequestBody(const Http2RequestBody&) = delete;
  Http2RequestBody& operator=(const Http2RequestBody&) = delete;

  void expect() noexcept { is_expected_ = true; }
  // The peer has more of it to send.
  bool is_expected() const noexcept { return is_expected_; }

  // A part, which is appended to `body`, or dropped if that is null or the whole is too large.
  // False: the connection keeps no more.
  bool add(std::span<const std::byte> part, std::string* body) noexcept {
    received_bytes_ += part.size();
    if (body == nullptr || is_large()) return true;
    if (connection_bytes_ + part.size() > kept_bytes_max) return false;
    const size_t capacity = body->capacity();
    body->append(reinterpret_cast<const char*>(part.data()), part.size());
    const size_t grown = body->capacity() - capacity;
    kept_bytes_ += grown;
    connection_bytes_ += grown;
    return true;
  }
  // It is larger than any that is read: a request that reads it is refused.
  bool is_large() const noexcept { return received_bytes_ > limits::http_body_bytes_max; }

  void end() noexcept {
    is_expected_ = false;
    release();
  }
  // Another body of the connection may have its room: this one is whole, or nobody reads it.
  void release() noexcept { connection_bytes_ -= std::exchange(kept_bytes_, 0); }

 private:
  size_t& connection_bytes_;
  size_t received_bytes_ = 0;
  size_t kept_bytes_ = 0;
  bool is_expected_ = false;
};

}  // namespace sluice::session
