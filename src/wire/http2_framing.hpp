// HTTP/2's framing of one connection, by libnghttp2: the bytes of frames <-> requests and answers.
// Flow:   received bytes -> receive() -> Http2Events; answer(), reset(), ... -> next() -> output.
// Shape:  RFC 9113 without push. An answer's body is read from its stream as the peer opens its
//         windows. Beside it only Http2Fields and Http2Client know nghttp2.
// Errors: a peer's mistake is answered by RST_STREAM or GOAWAY; receive() returns false when the
//         connection cannot go on.
// Bounds: streams_max at once, the others are refused (REFUSED_STREAM); windows of 64 KiB a stream
//         and 256 KiB in all; memory_max for what nghttp2 keeps; of the fields of a head or of
//         trailers fields_bytes_max, decoded. Floods of CONTINUATION, SETTINGS and PING end the
//         connection; Http2Frames counts resets.
// Lives:  one connection, one thread; events are reported during receive() and next() only.
// Source: docs/adr/0013-http2-by-nghttp2.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/block_pool.hpp"
#include "wire/reply_value.hpp"

struct nghttp2_session;

namespace sluice::wire {

class Http2Fields;

// What a client of HTTP/2 sends first.
inline constexpr std::string_view http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

using Http2StreamId = int32_t;

// The payload of a SETTINGS frame, as HTTP2-Settings has it (RFC 7540, 3.2.1). Nothing: upgrade()
// would not take it.
std::optional<std::string> decode_http2_settings(std::string_view text);

// RFC 9113, 7.
enum class Http2Error : uint32_t {
  no_error = 0,
  protocol_error = 1,
  refused_stream = 7,
  cancel = 8,
  enhance_your_calm = 11,
};

// What happens on the streams of a connection.
class Http2Events {
 public:
  // A request's head: begins, each of its fields, ends. One head at a time.
  virtual void on_head_begin(Http2StreamId stream) noexcept = 0;
  virtual void on_field(std::string_view name, std::string_view value) noexcept = 0;
  virtual void on_head_end(Http2StreamId stream, bool has_body) noexcept = 0;

  virtual void on_body(Http2StreamId stream, std::span<const std::byte> bytes) noexcept = 0;
  virtual void on_body_end(Http2StreamId stream) noexcept = 0;

  // Copies more of the answer's body to `out`.
  struct BodyPart {
    size_t bytes = 0;  // 0 without is_last: call resume() when there is more
    bool is_last = false;
  };
  virtual BodyPart read_body(Http2StreamId stream, std::span<std::byte> out) noexcept = 0;

  // The answer ends with the frame that this next() returns, of so many bytes.
  virtual void on_answer_sent(Http2StreamId stream, size_t frame_bytes) noexcept = 0;
  // The stream is over: answered, or reset by either side. Nothing about it follows.
  virtual void on_closed(Http2StreamId stream) noexcept = 0;
  // A stream was reset because of an error of the peer's.
  virtual void on_error_reset() noexcept = 0;

 protected:
  ~Http2Events() = default;
};

class Http2Framing {
 public:
  static constexpr uint32_t streams_max = 250;
  static constexpr size_t memory_max = 1024 * 1024;
  // Trailers reset their stream from limits::http_header_bytes_max on.
  static constexpr size_t fields_bytes_max = 64 * 1024;

  // What nghttp2 keeps comes from `blocks`.
  Http2Framing(Http2Events& events, base::BlockPool& blocks,
               size_t memory_bytes_max = memory_max) noexcept;
  ~Http2Framing();
  Http2Framing(const Http2Framing&) = delete;
  Http2Framing& operator=(const Http2Framing&) = delete;

  // The connection was upgraded from HTTP/1.1: its request is stream 1. `settings` is the decoded
  // HTTP2-Settings. False: the settings are no good.
  bool upgrade(std::span<const std::byte> settings, bool head_only) noexcept;

  // False: the connection has to end, after what next() still has.
  bool receive(std::span<const std::byte> bytes) noexcept;
  // Of fields that have been decoded since the last call: a byte received may stand for thousands.
  size_t take_decoded_bytes() noexcept { return std::exchange(decoded_bytes_, 0); }

  // What is to be sent next, until taken() has been called for all of it; empty: nothing now.
  std::span<const std::byte> next() noexcept;
  void taken(size_t bytes) noexcept { pending_ = pending_.subspan(bytes); }

  // An answer's head. `body_bytes`: absent where it is not known yet. With has_body its body is
  // read by read_body().
  struct Answer {
    const ReplyHead& head;
    int64_t wall_ns = 0;
    std::optional<size_t> body_bytes;
    bool has_body = false;
  };
  void answer(Http2StreamId stream, const Answer& answer) noexcept;
  void answer_continue(Http2StreamId stream) noexcept;  // 100
  void resume(Http2StreamId stream) noexcept;

  void reset(Http2StreamId stream, Http2Error error) noexcept;
  // GOAWAY with the highest number of all: the peer is to open no more streams.
  void announce_end() noexcept;
  // GOAWAY with the last stream that is served, which it returns; those behind it are not.
  Http2StreamId go_away(Http2Error error) noexcept;
  // GOAWAY, and no stream goes on.
  void terminate(Http2Error error) noexcept;

  // False: neither side has anything to say any more.
  bool is_open() const noexcept;
  size_t memory_bytes() const noexcept { return memory_bytes_; }

 private:
  struct Callbacks;
  struct Memory;

  void check(int outcome) noexcept;
  bool count_field(std::string_view name, std::string_view value) noexcept;
  bool has_room(size_t bytes) const noexcept;
  void* counted(void* memory) noexcept;

  Http2Events& events_;
  base::BlockPool& blocks_;
  const size_t memory_bytes_max_;
  size_t memory_bytes_ = 0;   // that nghttp2 has
  size_t fields_bytes_ = 0;   // of the head, or the trailers, that are being decoded
  size_t decoded_bytes_ = 0;  // of fields, since they were taken
  bool has_failed_ = false;   // nghttp2 can do no more
  Http2StreamId reset_ = 0;   // the last stream that was refused or reset; nghttp2 may forget it
  std::unique_ptr<nghttp2_session, void (*)(nghttp2_session*)> session_;
  std::unique_ptr<Http2Fields> fields_;
  std::span<const std::byte> pending_;
};

}  // namespace sluice::wire
