// One request on a connection of HTTP/2, from its head to the last byte of its answer.
// Flow:   head -> a decision of the turn, or a RestExchange -> answer -> read_body() as the peer
//         opens its window.
// Shape:  a transport of its own: streams are answered in any order, and each has its log.
// Bounds: a body of limits::http_body_bytes_max; an AnswerBody.
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

#include "base/limits.hpp"
#include "session/answer_body.hpp"
#include "session/context.hpp"
#include "session/request_log.hpp"
#include "session/rest_exchange.hpp"
#include "session/session.hpp"
#include "session/session_transport.hpp"
#include "session/ticket_share.hpp"
#include "wire/http2_framing.hpp"
#include "wire/http_codec.hpp"

namespace sluice::session {

// What the streams of a connection share.
struct Http2Connection {
  Http2Connection(Context& of_context, Session& of_session, wire::Http2Events& events) noexcept
      : context(of_context), session(of_session), framing(events, of_context.blocks) {}

  Context& context;
  Session& session;
  wire::Http2Framing framing;
  TicketShare tickets;
  size_t unread_bytes = 0;         // of answers, which the peer's windows hold back
  size_t asked_bytes = 0;          // of answers that shards gather, at most
  size_t head_bytes = 0;           // of the requests' heads
  size_t body_bytes = 0;           // allocated for bodies that are not whole yet
  uint32_t outstanding_count = 0;  // streams that shards owe a reply
};

// Its session's lists.
struct AskingTag;      // of streams that are to ask the shards, or wait for room
struct UnfinishedTag;  // of those that have something to do at the turn's end

class Http2Stream final : public SessionTransport,
                          public boost::intrusive::set_base_hook<>,
                          public SessionHook<AskingTag>,
                          public SessionHook<UnfinishedTag> {
 public:
  static Http2Stream& make(Http2Connection& connection, wire::Http2StreamId id) noexcept;
  struct Delete {
    void operator()(Http2Stream* stream) const noexcept;
  };

  wire::Http2StreamId id() const noexcept { return id_; }

  // The request's head; its text stays here, and is counted.
  struct Head {
    std::string text;
    wire::HttpRequest request;  // views of `text`
    bool awaits_body = false;   // until it has ended
  };
  Head& head() noexcept { return head_; }
  void count_head() noexcept { connection_.head_bytes += head_.text.size(); }
  // Answers it, or leaves it to its exchange.
  void begin(const wire::RestRequest& request) noexcept;
  // Leaves it for later, to be routed again: there is no room for the answer that it asks for, or
  // the shard that decides it takes no more.
  void put_off() noexcept { is_put_off_ = true; }
  bool take_put_off() noexcept { return std::exchange(is_put_off_, false); }
  void refuse(const wire::HttpRefused& refused) noexcept;
  RequestLog& log() noexcept { return log_; }
  void keep_head() noexcept;

  // The request's body. False: the connection keeps no more of bodies that are not whole.
  static constexpr size_t kept_bytes_max = 512 * 1024;
  bool add_body(std::span<const std::byte> bytes) noexcept;
  void end_body() noexcept;
  bool awaits_body() const noexcept { return head_.awaits_body; }
  // It is larger than any that is read: a request that reads it is refused.
  bool has_large_body() const noexcept { return body_bytes_ > limits::http_body_bytes_max; }
  bool reads_body() const noexcept { return exchange_ && exchange_->takes_body(); }

  // A decision of the turn; write_decision() and write_release() answer it. If the connection ends
  // before its verdict, the log still has a line for it.
  void set_undecided(bool is_undecided) noexcept { set_outstanding(is_undecided); }
  void wait(const api::Entry& entry, uint64_t request_id, bool json) noexcept;
  void write_decision(const wire::DecisionAnswer& decision) noexcept;
  void write_release() noexcept;

  RestExchange* exchange() noexcept { return exchange_ ? &*exchange_ : nullptr; }
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

  wire::Http2Events::BodyPart read_body(std::span<std::byte> out) noexcept;
  // The reservation that the answer names, once: 0 if none.
  uint64_t take_reservation() noexcept { return std::exchange(reservation_, 0); }

  // Neither side sends on it any more.
  void close() noexcept;
  bool is_closed() const noexcept { return is_closed_; }
  // Its RST_STREAM is to be sent once there is room for it; nothing more is due until then.
  void set_reset() noexcept { is_reset_ = true; }
  bool is_reset() const noexcept { return is_reset_; }
  // All of the answer has been sent.
  void on_sent() noexcept { answer_stage_ = AnswerStage::sent; }
  bool is_sent() const noexcept { return answer_stage_ == AnswerStage::sent; }
  bool is_outstanding() const noexcept { return is_outstanding_; }
  int64_t started_ms() const noexcept { return started_ms_; }
  // Whether the peer has not read all of the answer, and since when it has read nothing.
  bool is_unread() const noexcept { return is_answered() && !answer_body_.is_read(); }
  int64_t unread_since_ms() const noexcept { return unread_since_ms_; }

  // RestTransport.
  void answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept override;
  void begin_keys(bool pretty, bool table_order) noexcept override;
  void write_key(const api::KeyState& key) noexcept override;
  void end_keys() noexcept override;
  bool has_room() const noexcept override;

 private:
  Http2Stream(Http2Connection& connection, wire::Http2StreamId id) noexcept;
  ~Http2Stream();

  enum class AnswerStage : uint8_t { none, begun, sent };

  bool is_undecided() const noexcept { return is_outstanding_ && !exchange_; }
  bool is_answered() const noexcept { return answer_stage_ != AnswerStage::none; }
  void begin_answer() noexcept;
  RestExchange& open_exchange() noexcept;
  void count_asked(size_t bytes) noexcept;
  void set_outstanding(bool is_outstanding) noexcept;
  void release_body() noexcept;
  void log_answer(uint16_t status, uint64_t body_bytes) noexcept;
  void write(const wire::ReplyValue& value) noexcept;
  template <typename Encode>
  void write_part(size_t bytes_max, Encode encode) noexcept;
  wire::ReplyContext reply_context() const noexcept;

  Http2Connection& connection_;
  const wire::Http2StreamId id_;
  Head head_;
  RequestLog log_;
  std::optional<RestExchange> exchange_;
  std::string key_;        // of a request that waits, if its answer shows it
  size_t body_bytes_ = 0;  // received
  size_t kept_bytes_ = 0;  // allocated for it, counted in body_bytes of the connection
  size_t asked_bytes_ = 0;
  AnswerBody answer_body_;
  wire::DebugStream keys_;
  uint64_t reservation_ = 0;  // named by the answer, which is not sent yet
  const int64_t started_ms_;
  int64_t unread_since_ms_ = 0;
  bool is_logged_ = false;
  bool is_put_off_ = false;
  AnswerStage answer_stage_ = AnswerStage::none;
  bool is_outstanding_ = false;
  bool is_closed_ = false;
  bool is_reset_ = false;
};

}  // namespace sluice::session
