// One request on a connection of HTTP/2, from its head to the last byte of its answer.
// Flow:   head -> a decision of the turn, or a RestExchange, which may read the Http2RequestBody ->
//         Http2Answer.
// Shape:  a transport of its own: streams are answered in any order, and each has its log.
// Bounds: a body of limits::http_body_bytes_max; those of its answer.
// Lives:  in a block of its worker's, from the head on until nghttp2 has closed the stream and no
//         shard owes it a reply any more.
#pragma once

#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "session/http2_answer.hpp"
#include "session/http2_connection.hpp"
#include "session/http2_request_body.hpp"
#include "session/request_log.hpp"
#include "session/rest_exchange.hpp"
#include "session/session.hpp"
#include "session/session_transport.hpp"
#include "wire/http2_framing.hpp"
#include "wire/http2_head.hpp"
#include "wire/http_codec.hpp"

namespace sluice::session {

// Its session's lists.
struct AskingTag;      // of streams that are to ask the shards, or wait for room or a decision
struct WalkTag;        // of those that wait for another GET /debug of their connection
struct UnfinishedTag;  // of those that have something to do at the turn's end

class Http2Stream final : public SessionTransport,
                          public boost::intrusive::set_base_hook<>,
                          public SessionHook<AskingTag>,
                          public SessionHook<WalkTag>,
                          public SessionHook<UnfinishedTag> {
 public:
  static Http2Stream& make(Http2Connection& connection, wire::Http2StreamId id) noexcept;
  struct Delete {
    void operator()(Http2Stream* stream) const noexcept;
  };

  wire::Http2StreamId id() const noexcept { return id_; }

  // The request's head. read_head() returns the refusal of one that the server does not take.
  std::optional<wire::HttpRefused> read_head(wire::Http2Head& head, bool has_body) noexcept;
  // That of HTTP/1.1 which asked for the upgrade; `request` has views of `text`.
  void set_head(std::string&& text, const wire::HttpRequest& request) noexcept;
  const wire::HttpRequest& request() const noexcept { return request_; }
  // Answers it, or leaves it to its exchange.
  void begin(const wire::RestRequest& request) noexcept;
  // Leaves it for later, to be routed again: there is no room for the answer that it asks for, or
  // the shard that decides it takes no more.
  void put_off() noexcept { is_put_off_ = true; }
  bool is_put_off() const noexcept { return is_put_off_; }
  bool take_put_off() noexcept { return std::exchange(is_put_off_, false); }
  void refuse(const wire::HttpRefused& refused) noexcept;
  RequestLog& log() noexcept { return log_; }
  void keep_head() noexcept;

  // The request's body.
  void on_body(std::span<const std::byte> part) noexcept;
  void on_body_end() noexcept;

  // A decision of the turn; write_decision() and write_release() answer it. If the connection ends
  // before its verdict, the log still has a line for it.
  void set_undecided(bool is_undecided) noexcept { set_outstanding(is_undecided); }
  void wait(const api::Entry& entry, uint64_t request_id, bool json) noexcept;
  void write_decision(const wire::DecisionAnswer& decision) noexcept;
  void write_release() noexcept;

  RestExchange* exchange() noexcept { return exchange_ ? &*exchange_ : nullptr; }
  bool is_unread_walk(int64_t now_ms) const noexcept {
    return is_walking_ && answer_.deadline_ms(pace()) <= now_ms;
  }
  bool is_waiting() const noexcept { return exchange_ && exchange_->is_waiting(); }
  // Whether it is to ask the shards as soon as there is room for their answer.
  bool is_ready() const noexcept { return is_put_off_ || (exchange_ && exchange_->is_ready()); }
  void ask_shards() noexcept;
  // Whether end_turn() has something to do.
  bool is_unfinished() const noexcept { return exchange_ && exchange_->is_unfinished(); }
  // Returns whether it goes on in the next turn, too.
  bool end_turn() noexcept { return exchange_->end_turn(); }
  // After any event of its exchange.
  void settle() noexcept;

  wire::Http2Events::BodyPart read_answer(std::span<std::byte> out) noexcept {
    return answer_.read(out, pace());
  }
  // All of the answer has been sent. Returns the reservation that it names; 0: none.
  uint64_t on_answer_sent() noexcept;

  // Until then the peer has to send, or read, on; base::never_ms: it does not have to.
  int64_t deadline_ms() const noexcept;
  // Sends RST_STREAM, as soon as there is room for it; nothing more is due until then.
  void reset() noexcept;
  // Neither side sends on it any more.
  void close() noexcept;
  bool is_closed() const noexcept { return phase_ == Phase::closed; }
  bool is_outstanding() const noexcept { return is_outstanding_; }

  // RestTransport.
  void answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept override;
  void begin_keys(bool pretty, bool table_order) noexcept override;
  void write_key(const api::KeyState& key) noexcept override;
  void end_keys() noexcept override;
  bool has_room() const noexcept override;

 private:
  Http2Stream(Http2Connection& connection, wire::Http2StreamId id) noexcept;
  ~Http2Stream();

  enum class Phase : uint8_t { open, reset, closed };

  const Http2Answer::Pace& pace() const noexcept {
    return is_walking_ ? Http2Answer::walk_pace : Http2Answer::pace;
  }
  bool is_undecided() const noexcept { return is_outstanding_ && !exchange_; }
  bool reads_body() const noexcept { return exchange_ && exchange_->takes_body(); }
  void end_large_body() noexcept;
  RestExchange& open_exchange() noexcept;
  void count_asked(size_t bytes) noexcept;
  void set_outstanding(bool is_outstanding) noexcept;
  void set_walking(bool is_walking) noexcept;
  void log_answer(uint16_t status, uint64_t body_bytes) noexcept;
  void write(const wire::ReplyValue& value, uint64_t reservation = 0) noexcept;

  Http2Connection& connection_;
  const wire::Http2StreamId id_;
  std::string head_;
  wire::HttpRequest request_;  // views of `head_`
  RequestLog log_;
  std::optional<RestExchange> exchange_;
  std::string key_;  // of a request that waits, if its answer shows it
  Http2RequestBody body_;
  Http2Answer answer_;
  wire::DebugStream keys_;
  const int64_t started_ms_;
  size_t asked_bytes_ = 0;
  Phase phase_ = Phase::open;
  bool is_logged_ = false;
  bool is_put_off_ = false;
  bool is_outstanding_ = false;
  bool is_walking_ = false;
};

}  // namespace sluice::session
