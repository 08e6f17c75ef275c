// HTTP/2's framing of one connection on which requests without bodies are made, by libnghttp2.
// Flow:   request() -> next() -> output; received bytes -> receive() -> Http2ClientEvents.
// Errors: receive() returns false when the connection cannot go on; whoever makes requests ends it.
// Bounds: as many streams at once as the peer allows, at most streams_max; beyond it request() is
//         not to be called.
// Lives:  one connection, one thread; events are reported during receive() and next() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct nghttp2_session;

namespace sluice::wire {

class Http2ClientEvents {
 public:
  // How a request has ended.
  enum class End : uint8_t {
    answered,       // status and body are complete
    not_processed,  // the peer has done nothing for it
    failed,         // reset; what the peer has done is not known
  };

  virtual void on_status(int32_t stream, uint16_t status) noexcept = 0;
  virtual void on_body(int32_t stream, std::span<const std::byte> bytes) noexcept = 0;
  // Nothing about the stream follows.
  virtual void on_end(int32_t stream, End end) noexcept = 0;
  virtual void on_pong() noexcept = 0;

 protected:
  ~Http2ClientEvents() = default;
};

class Http2Client {
 public:
  static constexpr uint32_t streams_max = 250;

  explicit Http2Client(Http2ClientEvents& events);
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // False: the peer has not said yet how many streams it allows.
  bool knows_peer() const noexcept { return knows_peer_; }
  // Whether another request may be made.
  bool takes_requests() const noexcept;
  struct Request {
    std::string_view method, path, authority;
    std::string_view correlation_id;  // empty: none
  };
  // Returns the stream; negative: the connection takes no more.
  int32_t request(const Request& request) noexcept;
  // Nobody waits for the answer: RST_STREAM. on_end() follows, with `failed`.
  void cancel(int32_t stream) noexcept;
  void ping() noexcept;

  bool receive(std::span<const std::byte> bytes) noexcept;
  // What is to be sent next, until taken() has been called for all of it; empty: nothing now.
  std::span<const std::byte> next() noexcept;
  void taken(size_t bytes) noexcept { pending_ = pending_.subspan(bytes); }
  // False: neither side has anything to say any more.
  bool is_open() const noexcept;

 private:
  struct Callbacks;

  Http2ClientEvents& events_;
  std::unique_ptr<nghttp2_session, void (*)(nghttp2_session*)> session_;
  std::span<const std::byte> pending_;
  uint32_t streams_count_ = 0;
  bool has_failed_ = false;
  bool knows_peer_ = false;     // how many streams it allows
  bool is_going_away_ = false;  // the peer takes no new streams
};

}  // namespace sluice::wire
