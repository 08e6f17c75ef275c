#include "session/http_session.hpp"

#include <array>
#include <cstring>

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "wire/openapi.hpp"

namespace sluice::session {
namespace {

constexpr size_t reply_bytes_max = 4'096;  // of anything that shows no key

// While draining, how long an idle connection's next request may still cross the end.
constexpr int64_t drain_grace_ms = 200;

}  // namespace

HttpSession::HttpSession(Context& context, io::Io& io, io::SocketId socket,
                         net::ConnectionMemory& memory, std::span<char> key_memory,
                         std::span<char> log_memory) noexcept
    : Session(context, io, socket, memory),
      key_memory_(key_memory),
      log_(log_memory, context.options.access_log),
      phase_started_ms_(context.now_ms()) {
  in_request_ = true;  // the first request has to come within the header time-out
  drain_started_ms_ = context.now_ms();
}

HttpSession::~HttpSession() {
  ASSERT(ticket_ == api::no_ticket);
  if (debug_) --context_.debug_walks_count;
}

size_t HttpSession::take(std::span<const std::byte> bytes) noexcept {
  size_t taken = 0;
  needed_bytes_ = 0;
  while (!held() && !connection_.finishing() && !connection_.closing()) {
    if (!make_output_room()) break;
    if (quota_ && quota_->stage == HttpQuota::Stage::to_ask) {
      ask_quota();
      continue;
    }
    const auto rest = bytes.subspan(taken);
    if (rest.empty() && parser_.idle()) break;
    if (!make_room()) break;
    if (!in_request_) phase_started_ms_ = context_.now_ms();
    in_request_ = true;
    const wire::HttpParsed parsed = parser_.parse(rest);
    if (const auto* more = std::get_if<wire::HttpNeedMore>(&parsed)) {
      taken += more->consumed_bytes;
      break;
    }
    if (const auto* refused = std::get_if<wire::HttpRefused>(&parsed)) {
      refuse_with(refused->status, refused->cause);
      break;
    }
    if (const auto* head = std::get_if<wire::HttpHead>(&parsed)) {
      taken += head->consumed_bytes;
      on_head(head->request, {reinterpret_cast<const char*>(rest.data()), head->consumed_bytes});
    } else {
      taken += std::get<wire::HttpBodyEnd>(parsed).consumed_bytes;
      in_request_ = false;
      phase_started_ms_ = context_.now_ms();
      if (quota_) on_quota_body();
    }
  }
  return taken;
}

// A head that is parsed cannot be put back: there is room for whatever it asks, or it waits.
bool HttpSession::make_room() noexcept {
  return make_turn_room(1, limits::http_header_bytes_max);
}

void HttpSession::on_head(const wire::HttpRequest& request, std::string_view text) noexcept {
  if (!log_.has_room(text)) settle_answers();
  if (request.expects_continue) {
    settle_answers();
    write(reply_bytes_max, [](auto out) { return wire::encode_continue(out); });
  }
  if (!context_.text.has_room(request.target.size()) || !context_.turn.has_room(1)) {
    context_.backend.execute();
  }
  if (connection_.finishing() || connection_.closing()) return;
  log_.keep(text, context_.now);
  const wire::RestOptions options{
      .key_bytes_max = context_.options.key_bytes_max,
      .requests_can_set_rate = context_.options.requests_can_set_rate,
      .requests_can_mod_queue = context_.options.requests_can_mod_queue};
  wire::RestRequest rest = wire::route_request(request, options, context_.text.room());
  if (auto* decision = std::get_if<wire::RestDecision>(&rest)) {
    decide(request, *decision);
    return;
  }
  settle_answers();
  if (connection_.finishing() || connection_.closing()) return;
  const uint8_t kind = kind_of(request);
  wire::ReplyHead head = reply_head(kind);
  std::visit(base::Overloaded{
                 [&](const wire::RestDecision&) {},
                 [&](const wire::RestReply& reply) {
                   if (reply.of_rate) log_.refused(reply.body);
                   head.head_only = request.method == "HEAD";
                   if (reply.closes) return refuse_with(reply);
                   answer_with(reply, head);
                 },
                 [&](const wire::RestHealth&) {
                   answer_with({.status = uint16_t(context_.draining ? 503 : 200)}, head);
                 },
                 [&](const wire::RestMetrics&) {
                   if (!context_.backend.may_look()) return refuse_look(head);
                   hold(held_by_look);
                   context_.backend.metrics(*this, kind);
                 },
                 [&](const wire::RestTop& top) {
                   if (!context_.backend.may_look()) return refuse_look(head);
                   hold(held_by_look);
                   context_.backend.top(*this, kind, top.keys_max);
                 },
                 [&](const wire::RestInspect& inspect) {
                   const uint64_t id = kind | (inspect.pretty ? 256U : 0U);
                   if (!context_.backend.may_look()) return refuse_look(head);
                   hold(held_by_look);
                   context_.backend.inspect(*this, id, inspect.key);
                 },
                 [&](const wire::RestDebug& debug) { start_debug(request, debug); },
                 [&](const wire::RestOpenapi&) {
                   answer_content(
                       {.content_type = "application/json", .body = wire::openapi_text()}, head);
                 },
                 [&](const wire::RestQuota& quota) { begin_quota(request, quota); },
             },
             rest);
}

uint8_t HttpSession::kind_of(const wire::HttpRequest& request) const noexcept {
  return static_cast<uint8_t>((request.keep_alive && !context_.draining ? 0 : last) |
                              (request.http_1_0 ? http_1_0 : 0));
}

wire::ReplyHead HttpSession::reply_head(uint8_t kind) const noexcept {
  return {.keep_alive = (kind & last) == 0 && !context_.draining,
          .http_1_0 = (kind & http_1_0) != 0,
          .wall_ns = context_.now.wall_ns};
}

size_t HttpSession::decision_bytes_max(uint8_t kind, size_t key_bytes) const noexcept {
  return reply_bytes_max + ((kind & json) != 0 ? 6 * key_bytes : 0);
}

void HttpSession::decide(const wire::HttpRequest& request, wire::RestDecision& decision) noexcept {
  uint8_t kind = kind_of(request);
  if (decision.json) kind |= json;
  api::Entry& asked = decision.entry;
  if (context_.draining && asked.op == api::Op::acquire) {
    settle_answers();
    ++context_.drained_entries;
    write_decision(api::Verdict::draining, {}, asked.key(), kind, false);
    return;
  }
  const std::span<char> text = context_.text.room();
  if (asked.key_data >= text.data() && asked.key_data < text.data() + text.size()) {
    context_.text.commit(static_cast<size_t>(asked.key_data - text.data()) + asked.key_bytes);
  }
  const auto socket = connection_.socket();
  api::Entry& entry =
      context_.turn.add({.session = socket.index, .generation = socket.generation, .kind = kind}, 1,
                        asked.key_bytes)[0];
  entry = asked;
  if (entry.op == api::Op::release && log_.warns()) entry.flags |= api::flag::wants_details;
  if (entry.op == api::Op::acquire) {
    entry.flags |= api::flag::wants_details | api::flag::shows_id;
    const uint32_t most = context_.options.wait_ms_max;
    if (most != 0 && (entry.wait_ms_max == 0 || entry.wait_ms_max > most)) entry.wait_ms_max = most;
  }
  connection_.promise(decision_bytes_max(kind, entry.key_bytes));
  ++undecided_;
  if ((entry.flags & api::flag::may_wait) != 0) {
    entry.ticket = context_.waits.take(socket.index, 0);
    if (entry.ticket == api::no_ticket) entry.flags |= api::flag::waiters_full;
  }
  // What follows a request that may wait, or that another core decides, or the last one, is not
  // looked at before its answer.
  const bool may_wait = (entry.flags & api::flag::may_wait) != 0;
  if (may_wait || (kind & last) != 0 || !context_.backend.is_here(entry.key())) {
    hold(held_by_decision);
  }
}

void HttpSession::on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept {
  --undecided_;
  const api::Entry& entry = verdicts.entries[0];
  const api::Verdict verdict = verdicts.verdicts[0];
  const bool queued = verdict == api::Verdict::queued;
  const bool gone = connection_.closing() || connection_.finishing();
  connection_.keep_promise(decision_bytes_max(request.kind, entry.key_bytes));
  if (queued && !gone) {
    ticket_ = entry.ticket;
    WaitingEntry& waiting = context_.waits[ticket_];
    waiting.follow(WaitEvent::joined);
    mark_dirty();  // its peer may have left since it asked
    waiting.detail.request_id = verdicts.details[0].request_id;
    waiting_kind_ = request.kind;
    waiting_key_bytes_ = 0;
    if ((request.kind & json) != 0) {
      ASSERT(entry.key_bytes <= key_memory_.size());
      std::memcpy(key_memory_.data(), entry.key_data, entry.key_bytes);
      waiting_key_bytes_ = entry.key_bytes;
    }
    return;
  }
  if (queued) {
    context_.backend.abandon(context_.waits[entry.ticket]);
    log_.vanished();
  } else if (entry.ticket != api::no_ticket) {
    context_.waits.give_back(entry.ticket);
  }
  if (gone) {
    if (!queued) log_.answered(client_left, 0);
    return;
  }
  const bool released = entry.op == api::Op::release;
  const bool was_live = (entry.flags & api::flag::wants_details) == 0 || verdicts.details[0].limit;
  if (released && !was_live) log_.released_unknown();
  write_decision(verdict, verdicts.details[0], entry.key(), request.kind, released);
}

void HttpSession::write_decision(api::Verdict verdict, const api::Detail& detail,
                                 std::string_view key, uint8_t kind, bool released) noexcept {
  wire::ReplyHead head = reply_head(kind);
  if (verdict == api::Verdict::draining) head.keep_alive = false;  // another core may be first
  if (verdict == api::Verdict::never_fits) log_.refused("cost exceeds maxRequests");
  answer(decision_bytes_max(kind, key.size()), head.keep_alive, [&](auto out) {
    if (released) return wire::encode_reply(wire::RestReply{.status = 200}, head, out);
    return wire::encode_decision(verdict, detail, key, (kind & json) != 0, head, out);
  });
}

void HttpSession::on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept {
  ASSERT(entry.ticket == ticket_);
  api::Detail detail = grant.detail;
  detail.request_id = entry.detail.request_id;
  context_.waits.give_back(ticket_);
  ticket_ = api::no_ticket;
  phase_started_ms_ = context_.now_ms();
  if (quota_) return on_quota_granted(grant);
  write_decision(grant.verdict, detail, {key_memory_.data(), waiting_key_bytes_}, waiting_kind_,
                 false);
}

void HttpSession::answer_with(const wire::RestReply& reply, const wire::ReplyHead& head) noexcept {
  answer(reply_bytes_max, head.keep_alive,
         [&](auto out) { return wire::encode_reply(reply, head, out); });
}

void HttpSession::answer_content(const wire::RestContent& content,
                                 const wire::ReplyHead& head) noexcept {
  answer(reply_bytes_max + content.headers.size() + content.body.size(), head.keep_alive,
         [&](auto out) { return wire::encode_content(content, head, out); });
}

// Writes one whole response with `encode(out)`.
template <typename Encode>
void HttpSession::answer(size_t bytes_max, bool keep_alive, Encode encode) noexcept {
  write(bytes_max, [&](std::span<std::byte> out) {
    const size_t size_bytes = encode(out);
    log_.answered(out.first(size_bytes));
    return size_bytes;
  });
  answered(keep_alive);
}

// One response is complete: goes on with what is behind it, or ends.
void HttpSession::answered(bool keep_alive) noexcept {
  if (!keep_alive) {
    finish();
    return;
  }
  // Of requests decided together only the last may hold the session: it goes on after that one.
  if (undecided_ == 0) release_hold(held_by_decision);
  schedule_timer();
}

// Answers must leave in order: what the turn holds of this connection comes first.
void HttpSession::settle_answers() noexcept {
  if (undecided_ > 0) context_.backend.execute();
}

void HttpSession::on_text(uint64_t id, std::string_view content_type,
                          std::string_view text) noexcept {
  release_hold(held_by_look);
  if (connection_.finishing()) return;
  const wire::ReplyHead head = reply_head(static_cast<uint8_t>(id));
  answer(reply_bytes_max + text.size(), head.keep_alive,
         [&](auto out) { return wire::encode_text(200, content_type, text, head, out); });
}

void HttpSession::on_inspected(uint64_t id, const api::KeyState* state) noexcept {
  release_hold(held_by_look);
  if (connection_.finishing()) return;
  const wire::ReplyHead head = reply_head(static_cast<uint8_t>(id));
  if (state == nullptr) {
    log_.inspected_unknown();
    return answer_with(wire::key_not_found, head);
  }
  answer(reply_bytes_max + wire::debug_key_bytes_max(state->key.size()), head.keep_alive,
         [&](auto out) { return wire::encode_key_state(*state, (id & 256U) != 0, head, out); });
}

void HttpSession::start_debug(const wire::HttpRequest& request,
                              const wire::RestDebug& asked) noexcept {
  const wire::ReplyHead head = reply_head(kind_of(request));
  if (context_.debug_walks_count >= DebugWalk::walks_max || !context_.backend.may_look()) {
    return refuse_look(head);
  }
  ++context_.debug_walks_count;
  debug_ = std::make_unique<DebugWalk>(
      asked, wire::DebugStream{.pretty = asked.pretty, .chunked = !request.http_1_0});
  debug_->head = head;
  hold(held_by_decision);
  debug_->asked = true;
  context_.backend.count_keys(*this, 0);
}

void HttpSession::refuse_look(const wire::ReplyHead& head) noexcept {
  answer(reply_bytes_max, head.keep_alive, [&](auto out) {
    return wire::encode_text(503, "text/plain; charset=UTF-8",
                             "too many views of the keys at once: try again later", head, out);
  });
}

void HttpSession::on_counted(uint64_t, uint64_t keys_count) noexcept {
  if (!debug_ || connection_.finishing()) return;
  mark_dirty();
  debug_->asked = false;
  debug_->expect(keys_count);
}

void HttpSession::begin_debug_stream() noexcept {
  debug_->streams = true;
  debug_->head.keep_alive = debug_->head.keep_alive && debug_->stream.chunked && !context_.draining;
  write(reply_bytes_max, [&](auto out) {
    return wire::encode_debug_head(debug_->stream, !debug_->sorted(), debug_->head, out);
  });
}

// A slice of GET /debug per turn, as long as the peer reads.
void HttpSession::continue_debug() noexcept {
  if (debug_->asked) return;  // goes on with the answer
  if (debug_->needs_page()) {
    debug_->forget_told();
    if (!context_.backend.may_look()) return mark_ready();
    debug_->asked = true;
    context_.backend.page(*this, 0, debug_->cursor(), DebugWalk::slice_keys);
    if (debug_->asked) return;
  }
  if (!debug_->sorted() || !debug_->needs_page()) {
    if (!debug_->streams && debug_->sorted() && answer_small_debug()) return;
    if (!debug_->streams) begin_debug_stream();
    if (write_debug_rows() && !debug_->needs_page()) return finish_debug();
  }
  // Goes on in the next turn, or when the peer has read.
  if (!connection_.output_over_high()) mark_ready();
}

void HttpSession::finish_debug() noexcept {
  write(reply_bytes_max, [&](auto out) { return wire::encode_debug_tail(debug_->stream, out); });
  log_.answered(200, debug_->stream.body_bytes);
  const bool keep_alive = debug_->head.keep_alive;
  end_debug();
  answered(keep_alive);
}

// As Go's server does: a body of up to 2 KiB is told with its length.
bool HttpSession::answer_small_debug() noexcept {
  std::array<std::byte, DebugWalk::small_body_bytes> body;
  const std::optional<size_t> body_bytes = debug_->encode_whole(body);
  if (!body_bytes) return false;
  wire::ReplyHead head = debug_->head;
  head.keep_alive = head.keep_alive && !context_.draining;
  end_debug();
  answer(reply_bytes_max + *body_bytes, head.keep_alive, [&](auto out) {
    return wire::encode_text(200, "application/json",
                             {reinterpret_cast<const char*>(body.data()), *body_bytes}, head, out);
  });
  return true;
}

void HttpSession::end_debug() noexcept {
  debug_.reset();
  --context_.debug_walks_count;
}

// Whether all gathered rows are written.
bool HttpSession::write_debug_rows() noexcept {
  for (uint32_t written = 0; debug_->has_row(); ++written) {
    if (connection_.output_over_high() || written >= DebugWalk::slice_keys) return false;
    const api::KeyState& state = debug_->take_row();
    write(wire::debug_key_bytes_max(state.key.size()),
          [&](auto out) { return wire::encode_debug_key(debug_->stream, state, out); });
  }
  return true;
}

void HttpSession::on_page(uint64_t, std::span<const api::KeyState> keys,
                          uint64_t next_cursor) noexcept {
  if (!debug_ || connection_.finishing()) return;
  mark_dirty();
  debug_->asked = false;
  debug_->add(keys, next_cursor);
}

void HttpSession::write_settled() noexcept {
  if (debug_ && !connection_.finishing()) continue_debug();
  const bool asks_next =
      quota_ && quota_->has_outcome() && quota_->stage == HttpQuota::Stage::to_ask;
  if (asks_next) release_hold(held_by_decision);
}

void HttpSession::drop_waiting() noexcept {
  if (!has_waiting()) return;
  if (ticket_ == api::no_ticket) {
    drop_outcome();
  } else {
    context_.backend.abandon(context_.waits[ticket_]);
    ticket_ = api::no_ticket;
  }
  log_.vanished();
}

void HttpSession::refuse_with(uint16_t status, std::string_view cause) noexcept {
  settle_answers();
  if (connection_.finishing() || connection_.closing()) return;
  refuse_with(wire::refusal_reply(status, cause));
}

// What breaks the stream is no request: the log does not tell it.
void HttpSession::refuse_with(const wire::RestReply& reply) noexcept {
  const wire::ReplyHead head{.keep_alive = false, .wall_ns = context_.now.wall_ns};
  write(reply_bytes_max, [&](auto out) { return wire::encode_reply(reply, head, out); });
  finish();
}

void HttpSession::write_refusal() noexcept {
  refuse_with(503, "the server has all the connections it may have (--max-connections)");
}

void HttpSession::begin_drain() noexcept {
  // Whoever is owed an answer gets it with `Connection: close`; the idle are ended after a grace.
  drain_started_ms_ = context_.now_ms();
  schedule_timer();
}

int64_t HttpSession::deadline_ms() const noexcept {
  const bool asks = quota_ && quota_->stage != HttpQuota::Stage::body;
  if (has_waiting() || undecided_ > 0 || debug_ || asks || held()) return never_ms;
  const Options& options = context_.options;
  const bool idle = parser_.idle() && connection_.input().empty();
  if (context_.draining && idle) return drain_started_ms_ + drain_grace_ms;
  if (in_request_) return phase_started_ms_ + options.header_timeout_ms;
  return options.idle_timeout_ms == 0 ? never_ms : phase_started_ms_ + options.idle_timeout_ms;
}

void HttpSession::on_deadline() noexcept {
  finish();
}

}  // namespace sluice::session
