// The answer on a stream of HTTP/2, until its peer has read it.
// Flow:   write(), or begin(), append() part by part and end() -> read() as the peer opens its
//         windows -> on_sent().
// Bounds: the caller asks has_room() before append(); the peer reads at a pace; the connection
//         counts unread bytes.
// Lives:  as long as its stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "session/answer_body.hpp"
#include "session/http2_connection.hpp"
#include "wire/reply_value.hpp"

namespace sluice::session {

class Http2Answer {
 public:
  // In so much time the peer has to read at least so much, or all that there is.
  struct Pace {
    int64_t ms;
    size_t bytes;
  };
  static constexpr Pace pace{.ms = 60'000, .bytes = 1'024};
  static constexpr Pace walk_pace{.ms = 10'000, .bytes = 32 * 1024};  // others may wait for its end

  Http2Answer(Http2Connection& connection, wire::Http2StreamId stream) noexcept
      : connection_(connection), stream_(stream) {}
  ~Http2Answer() { drop(); }
  Http2Answer(const Http2Answer&) = delete;
  Http2Answer& operator=(const Http2Answer&) = delete;

  // A whole answer. `reservation`: that it names; 0: none.
  void write(const wire::ReplyValue& value, const wire::ReplyContext& context,
             uint64_t reservation) noexcept;

  // One whose body is not known yet.
  void begin(const wire::ReplyHead& head) noexcept;
  // What `encode(out)` writes, at most `bytes_max`.
  template <typename Encode>
  void append(size_t bytes_max, Encode encode) noexcept {
    if (is_dropped()) return;
    if (body_.unread_bytes() == 0) note_progress();
    connection_.unread_bytes += body_.append(bytes_max, encode);
    connection_.framing.resume(stream_);
  }
  void end() noexcept { body_.end(); }
  bool has_room() const noexcept { return body_.has_room(); }

  wire::Http2Events::BodyPart read(std::span<std::byte> out, const Pace& least) noexcept;
  // By then the peer has to read on; base::never_ms: it has nothing to read.
  int64_t deadline_ms(const Pace& least) const noexcept;

  // All of it has been sent.
  void on_sent() noexcept { stage_ = Stage::sent; }
  bool is_sent() const noexcept { return stage_ == Stage::sent; }
  // The reservation that it names, once: 0 if none.
  uint64_t take_reservation() noexcept { return std::exchange(reservation_, 0); }

  // Nobody reads it: the stream is closed.
  void drop() noexcept;

 private:
  enum class Stage : uint8_t { none, begun, sent, dropped };

  bool is_dropped() const noexcept { return stage_ == Stage::dropped; }
  void note_progress() noexcept;
  void send_head(const wire::ReplyHead& head, std::optional<size_t> body_bytes,
                 bool has_body) noexcept;

  Http2Connection& connection_;
  const wire::Http2StreamId stream_;
  Stage stage_ = Stage::none;
  AnswerBody body_;
  uint64_t reservation_ = 0;  // until the answer is sent
  int64_t unread_since_ms_ = 0;
  size_t read_bytes_ = 0;  // since then
};

}  // namespace sluice::session
