// The REST dialect's side of an HTTP/2 connection: its streams, what it may hold, and how it ends.
// Flow:   Http2Frames -> Http2Framing -> Http2Head -> wire::route_request() -> an entry of the turn
//         or a stream's RestExchange -> the stream's answer -> the connection's output.
// Shape:  docs/rest.md, "HTTP/2". Requests of a group of streams are decided together, and answered
//         in any order; a frame is taken only when there is room for the request that it may end.
// Errors: a request that the server does not take is answered; a broken connection ends with
//         GOAWAY.
// Bounds: Http2Framing's and Http2Frames'; answers that the peer does not read: beyond them large
//         answers and calls under /v1 wait; heads of open streams: beyond them new streams are
//         refused; bodies that are not whole: one more is refused; a head, a body, and an answer
//         that is not read have their times.
#pragma once

#include <cstdint>
#include <memory>

#include "session/http2_connection.hpp"
#include "session/http2_streams.hpp"
#include "session/http2_times.hpp"
#include "session/session.hpp"
#include "wire/http2_frames.hpp"
#include "wire/http2_framing.hpp"
#include "wire/http2_head.hpp"

namespace sluice::session {

class Http2Session final : public Session, private wire::Http2Events {
 public:
  static constexpr size_t unread_bytes_max = 320 * 1024;
  static constexpr size_t head_bytes_max = 256 * 1024;  // of open streams
  // With those that the peer has reset, and that shards still owe a reply.
  static constexpr size_t streams_max = 2 * wire::Http2Framing::streams_max;

  // So many requests are decided and answered together. Those of all connections at once, with
  // nghttp2's memory for them, would not stay in the cache until they are answered. And the heads
  // of a group leave room for the next one's, if the client reads its answers.
  static constexpr uint32_t group_requests = 32;

  // Takes the connection over from its session of HTTP/1.1.
  explicit Http2Session(Remains&& remains) noexcept;
  // Goes on with what has been received. The first stream is that of `upgrade`, if there is one.
  void begin_http2(std::unique_ptr<Http2Upgrade> upgrade) noexcept;
  ~Http2Session() override;

  void on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept override;
  void on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept override;
  void on_inspected(uint64_t id, const api::KeyState* state) noexcept override;
  void on_page(uint64_t id, std::span<const api::KeyState> keys,
               uint64_t next_cursor) noexcept override;
  void on_counted(uint64_t id, uint64_t keys_count) noexcept override;
  void on_text(uint64_t id, std::string_view content_type, std::string_view text) noexcept override;
  void on_quota(uint64_t id, const api::QuotaBatch& batch) noexcept override;
  void begin_drain() noexcept override;
  void end_drain() noexcept override;

 private:
  static constexpr wire::Http2StreamId every_stream = INT32_MAX;

  size_t take(std::span<const std::byte> bytes) noexcept override;
  void write_refusal() noexcept override;
  void write_outcomes() noexcept override;
  void drop_waiting() noexcept override;
  bool has_waiting() const noexcept override;
  // Also of streams that are to ask the shards, as soon as these have room for a query, and of GET
  // /debug, as far as the peer's windows let it go on.
  bool has_undecided() const noexcept override {
    return shared_.outstanding_count > 0 || streams_.may_any_go_on() || may_ask();
  }
  int64_t deadline_ms() const noexcept override;
  void on_deadline() noexcept override;

  // wire::Http2Events.
  void on_head_begin(wire::Http2StreamId stream) noexcept override;
  void on_field(std::string_view name, std::string_view value) noexcept override;
  void on_head_end(wire::Http2StreamId stream, bool has_body) noexcept override;
  void on_body(wire::Http2StreamId stream, std::span<const std::byte> bytes) noexcept override;
  void on_body_end(wire::Http2StreamId stream) noexcept override;
  BodyPart read_body(wire::Http2StreamId stream, std::span<std::byte> out) noexcept override;
  void on_answer_sent(wire::Http2StreamId stream, size_t frame_bytes) noexcept override;
  void on_closed(wire::Http2StreamId stream) noexcept override;
  void on_error_reset() noexcept override;

  bool is_ending() const noexcept { return connection_.finishing() || connection_.closing(); }
  void receive(std::span<const std::byte> bytes) noexcept;
  void answer_group() noexcept;
  bool has_stream_room() const noexcept {
    return shared_.head_bytes <= head_bytes_max && streams_.size() < streams_max;
  }
  // Whether an answer may be large: not beyond what the peer reads.
  bool has_answer_room() const noexcept {
    return shared_.unread_bytes + shared_.asked_bytes <= unread_bytes_max;
  }
  bool may_ask() const noexcept {
    return streams_.has_to_decide() || (streams_.has_asking() && has_answer_room());
  }
  bool ask_ready() noexcept;
  void begin_request(Http2Stream& stream) noexcept;
  void route(Http2Stream& stream) noexcept;
  void decide(Http2Stream& stream, const wire::RestDecision& decision) noexcept;
  Http2Stream& open(wire::Http2StreamId id) noexcept;
  // Of something that a shard still owes a reply.
  Http2Stream& outstanding(uint64_t id) noexcept;
  // after_event(): the turn's end has more to do. follow(): what the event means for the stream.
  void after_event(Http2Stream& stream) noexcept;
  void follow(Http2Stream& stream) noexcept;
  template <typename Handle>
  void on_reply(uint64_t id, Handle handle) noexcept;
  void remove_if_over(Http2Stream& stream) noexcept;
  void write_output() noexcept;
  void end_connection(wire::Http2Error error) noexcept;
  bool has_last_stream() const noexcept { return last_stream_ != every_stream; }
  void end_late(Http2Stream& stream) noexcept;
  void end_late_streams() noexcept;
  void submit_last_goaway() noexcept;

  Http2Connection shared_;
  wire::Http2Frames frames_;
  wire::Http2Head head_;
  Http2Streams streams_;
  Http2Times times_;
  uint32_t group_count_ = 0;                        // requests since answers were last written
  wire::Http2StreamId last_stream_ = every_stream;  // that is served; the last GOAWAY's
};

}  // namespace sluice::session
