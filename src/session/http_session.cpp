#include "session/http_session.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/error_code.hpp"
#include "session/rest_decision.hpp"
#include "wire/http2_framing.hpp"
#include "wire/http_text.hpp"

namespace sluice::session {

HttpSession::HttpSession(Context& context, io::Io& io, io::SocketId socket,
                         net::ConnectionMemory& buffers, const Memory& memory) noexcept
    : Session(context, io, socket, buffers),
      transport_(context, *this, connection_, memory.log),
      exchange_(context, transport_, transport_.log(), tickets_, {.session = socket.index},
                memory.key),
      pipeline_(memory.pipeline),
      phase_started_ms_(context.now_ms()) {
  in_request_ = true;  // the first request has to arrive within the header time-out
  drain_started_ms_ = context.now_ms();
}

// Verdicts that are still to come find no session.
HttpSession::~HttpSession() {
  for (; !pipeline_.empty(); pipeline_.pop()) transport_.log().answered(client_left, 0);
}

// --- Framing -------------------------------------------------------------------------------

size_t HttpSession::take(std::span<const std::byte> bytes) noexcept {
  size_t taken = 0;
  needed_bytes_ = 0;
  while (may_take()) {
    if (!make_pipeline_room() || !make_output_room()) break;
    if (exchange_.is_ready()) {
      if (!make_query_room()) break;
      exchange_.ask();
      update_flow();
      continue;
    }
    const auto rest = bytes.subspan(taken);
    if (rest.empty() && parser_.idle()) break;
    if (is_first_ && speaks_http2(rest)) break;
    if (!in_request_) phase_started_ms_ = context_.now_ms();
    in_request_ = true;
    const wire::HttpParsed parsed = parser_.parse(rest);
    if (const auto* more = std::get_if<wire::HttpNeedMore>(&parsed)) {
      taken += more->consumed_bytes;
      break;
    }
    if (const auto* refused = std::get_if<wire::HttpRefused>(&parsed)) {
      if (all_answered()) on_refused(*refused);
      break;
    }
    if (const auto* head = std::get_if<wire::HttpHead>(&parsed)) {
      const auto* const text = reinterpret_cast<const char*>(rest.data());
      if (!handle_head(head->request, {text, head->consumed_bytes})) break;
      taken += head->consumed_bytes;
    } else {
      taken += std::get<wire::HttpBodyEnd>(parsed).consumed_bytes;
      on_body_end();
    }
  }
  // The turn was over before the request could go on, which may need no more bytes: a head without
  // a body, or a call to be asked.
  const bool goes_on = exchange_.is_ready() || !parser_.idle();
  if (goes_on && context_.work.is_over() && !held()) mark_ready();
  return taken;
}

// Whether the bytes are not for HTTP/1.1: the connection begins with HTTP/2's preface, or with a
// part of it.
bool HttpSession::speaks_http2(std::span<const std::byte> bytes) noexcept {
  is_first_ = false;
  if (!context_.options.http2) return false;
  const std::string_view preface = wire::http2_preface;
  const std::string_view front(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), preface.size()));
  if (!preface.starts_with(front)) return false;
  if (front.size() == preface.size()) {
    pass_on_to_http2(nullptr);
  } else {
    is_first_ = true;
  }
  return true;
}

// Answers a request to go on in HTTP/2, as long as it is a valid one.
bool HttpSession::upgrade(const wire::HttpRequest& request, std::string_view text) noexcept {
  if (!context_.options.http2 || context_.draining) return false;
  auto settings = wire::decode_http2_settings(request.http2_settings);
  if (!settings) return false;
  auto upgrade = std::make_unique<Http2Upgrade>();
  upgrade->settings = std::move(*settings);
  upgrade->head = text;
  upgrade->request = request;
  const auto moved = [&](std::string_view view) {
    if (view.empty()) return view;
    return std::string_view{upgrade->head}.substr(static_cast<size_t>(view.data() - text.data()),
                                                  view.size());
  };
  upgrade->request.method = moved(request.method);
  upgrade->request.target = moved(request.target);
  upgrade->request.accept = moved(request.accept);
  upgrade->request.rate_style = moved(request.rate_style);
  upgrade->request.correlation_id = moved(request.correlation_id);
  transport_.write_upgrade();
  pass_on_to_http2(std::move(upgrade));
  return true;
}

void HttpSession::pass_on_to_http2(std::unique_ptr<Http2Upgrade> upgrade) noexcept {
  hold(held_by_move);
  context_.backend.speak_http2(*this, std::move(upgrade));
}

// Returns false if the request has to be parsed once more: when all before it are answered, or when
// the shard that owns its key takes it.
bool HttpSession::handle_head(const wire::HttpRequest& request, std::string_view text) noexcept {
  spend(work::rest_request + work::bytes(text.size()));
  const bool comes_after_all = request.expects_continue || !request.http2_settings.empty() ||
                               !transport_.log().has_room(text);
  if ((!comes_after_all || all_answered()) && on_head(request, text)) return true;
  parser_.reset();
  in_request_ = false;
  return false;
}

bool HttpSession::on_head(const wire::HttpRequest& request, std::string_view text) noexcept {
  if (is_ending()) return true;
  if (!request.http2_settings.empty() && upgrade(request, text)) return true;
  if (!context_.text.has_room(request.target.size()) || !context_.turn.has_room(1)) {
    context_.backend.execute();
  }
  const wire::RestRequest routed =
      wire::route_request(request, rest_options(context_.options), context_.text.room());
  if (!joins_pipeline(routed) && !all_answered()) return false;
  const auto* decision = std::get_if<wire::RestDecision>(&routed);
  if (decision != nullptr && !is_refused(*decision) && !make_lone_room(decision->entry)) {
    return false;
  }
  if (request.expects_continue) transport_.write_continue();
  transport_.log().keep(text, context_.now);
  if (decision != nullptr) {
    decide(request, *decision);
  } else {
    begin_exchange(request, routed);
  }
  return true;
}

// Whether it may be decided while requests before it are not answered yet.
bool HttpSession::joins_pipeline(const wire::RestRequest& routed) const noexcept {
  const auto* decision = std::get_if<wire::RestDecision>(&routed);
  if (decision == nullptr) return false;
  const bool may_wait = (decision->entry.flags & api::flag::may_wait) != 0;
  return !may_wait && !is_refused(*decision);
}

// While the server drains.
bool HttpSession::is_refused(const wire::RestDecision& decision) const noexcept {
  return context_.draining && decision.entry.op == api::Op::acquire;
}

void HttpSession::begin_exchange(const wire::HttpRequest& request,
                                 const wire::RestRequest& routed) noexcept {
  const auto* reply = std::get_if<wire::RestReply>(&routed);
  if (reply != nullptr && reply->closes) return refuse_with(*reply);
  const uint8_t head_only = request.method == "HEAD" ? HttpTransport::head_only : 0;
  transport_.begin(transport_.kind_of(request) | head_only);
  exchange_.begin(routed);
  if (std::string* body = exchange_.body()) parser_.keep_body(*body);
  update_flow();
}

// A proxy would take a second answer to one request for that of the next: a fault in the body of a
// request that was answered without it only ends the connection.
void HttpSession::on_refused(const wire::HttpRefused& refused) noexcept {
  const bool has_answer = refused.status != wire::HttpRefused::no_answer;
  if (has_answer && (!refused.in_body || exchange_.takes_body())) {
    return refuse_with(wire::refusal_reply(refused.status, refused.cause));
  }
  finish();
}

void HttpSession::on_body_end() noexcept {
  in_request_ = false;
  phase_started_ms_ = context_.now_ms();
  if (!exchange_.takes_body()) return;
  exchange_.on_body();
  update_flow();
}

// Called after anything that may have answered a request or opened an exchange: the session parses
// nothing behind an open exchange, and nothing at all after the last answer.
void HttpSession::update_flow() noexcept {
  if (connection_.closing()) return;
  mark_dirty();
  if (!in_request_) phase_started_ms_ = context_.now_ms();  // idle since its last answer
  if (transport_.is_over()) return finish();
  if (exchange_.is_pending()) {
    hold_for_answers(0);
  } else if (pipeline_.may_resume()) {
    release_hold(held_by_decision);
  }
  schedule_timer();
}

// --- Order ---------------------------------------------------------------------------------

void HttpSession::hold_for_answers(uint32_t unanswered_count) noexcept {
  pipeline_.resume_at(unanswered_count);
  hold(held_by_decision);
}

// Whether all requests before the present one are answered; if not the session is held until they
// are.
bool HttpSession::all_answered() noexcept {
  if (!pipeline_.empty()) context_.backend.execute();
  if (pipeline_.empty()) return true;
  hold_for_answers(0);
  return false;
}

// Whether another decision may be asked for; if not the session is held until half of them are
// answered.
bool HttpSession::make_pipeline_room() noexcept {
  if (pipeline_.is_full()) context_.backend.execute();
  if (!pipeline_.is_full()) return true;
  hold_for_answers(Pipeline::places / 2);
  return false;
}

// --- Decisions -----------------------------------------------------------------------------

void HttpSession::decide(const wire::HttpRequest& request,
                         const wire::RestDecision& decision) noexcept {
  uint8_t kind = transport_.kind_of(request);
  if (decision.json) kind |= HttpTransport::json;
  if (is_refused(decision)) {
    return answer_draining(kind, decision);
  }
  const auto socket = connection_.socket();
  const api::Entry& entry =
      add_decision(context_,
                   {.session = socket.index,
                    .generation = socket.generation,
                    .id = pipeline_.add(),
                    .kind = kind},
                   decision, transport_.log(), tickets_, {.session = socket.index});
  connection_.reserve_output(HttpTransport::decision_bytes_max(kind, entry.key_bytes));
  // If the request may wait, or is the last one, nothing behind it is parsed before its answer.
  const bool may_wait = (entry.flags & api::flag::may_wait) != 0;
  if (may_wait || (kind & HttpTransport::last) != 0) hold_for_answers(0);
}

void HttpSession::answer_draining(uint8_t kind, const wire::RestDecision& decision) noexcept {
  ++context_.drained_entries;
  transport_.begin(kind);
  transport_.write_decision(
      {.verdict = api::Verdict::draining, .key = decision.entry.key(), .json = decision.json});
  update_flow();
}

// Other shards' verdicts come in any order; a ticket is held by the only decision of its pipeline.
void HttpSession::on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept {
  if (!pipeline_.is_first(request.id)) {
    const bool shows_key = (request.kind & HttpTransport::json) != 0;
    return pipeline_.keep(request.id, request.kind, verdicts, shows_key);
  }
  pipeline_.pop();
  answer_decision(request.kind, verdicts);
  while (const Pipeline::Decided* decided = pipeline_.take_first()) {
    answer_decision(decided->kind, decided->verdicts());
  }
  if (!is_ending()) update_flow();  // marks it dirty: its peer may have left since the request
}

void HttpSession::answer_decision(uint8_t kind, const Verdicts& verdicts) noexcept {
  const DecidedEntry decided(verdicts);
  const bool is_json = (kind & HttpTransport::json) != 0;
  const bool has_left = is_ending();
  connection_.release_output(HttpTransport::decision_bytes_max(kind, decided.entry.key_bytes));
  transport_.begin(pipeline_.empty() ? kind : kind | HttpTransport::followed);
  if (decided.is_queued() && !has_left) {
    exchange_.wait(decided.entry, decided.detail.request_id, is_json);
  } else {
    end_decision(context_, tickets_, decided, is_json, has_left, transport_);
  }
}

// --- Replies for the exchange --------------------------------------------------------------

void HttpSession::on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept {
  phase_started_ms_ = context_.now_ms();
  exchange_.on_granted(entry, grant);
  update_flow();
}

void HttpSession::on_inspected(uint64_t, const api::KeyState* state) noexcept {
  if (connection_.finishing()) return;
  exchange_.on_inspected(state);
  update_flow();
}

void HttpSession::on_page(uint64_t, std::span<const api::KeyState> keys,
                          uint64_t next_cursor) noexcept {
  spend(keys.size() * work::debug_key);
  if (connection_.finishing()) return;
  exchange_.on_page(keys, next_cursor);
  update_flow();
}

void HttpSession::on_counted(uint64_t, uint64_t keys_count) noexcept {
  if (connection_.finishing()) return;
  exchange_.on_counted(keys_count);
  update_flow();
}

void HttpSession::on_text(uint64_t, std::string_view content_type, std::string_view text) noexcept {
  spend(work::bytes(text.size()));
  if (connection_.finishing()) return;
  exchange_.on_text(content_type, text);
  update_flow();
}

void HttpSession::on_quota(uint64_t, const api::QuotaBatch& batch) noexcept {
  spend(work::of(batch));
  exchange_.on_quota(batch);
  if (!is_ending()) update_flow();
}

void HttpSession::write_outcomes() noexcept {
  if (!exchange_.is_pending() || connection_.finishing()) return;
  if (exchange_.end_turn()) mark_ready();
  if (!exchange_.is_pending()) update_flow();
}

// --- The connection's end ------------------------------------------------------------------

void HttpSession::refuse_with(const wire::RestReply& reply) noexcept {
  transport_.write_refusal(reply);
  finish();
}

void HttpSession::write_refusal() noexcept {
  refuse_with(wire::refusal_reply(503, error_text(ErrorCode::too_many_connections)));
}

void HttpSession::begin_drain() noexcept {
  // Open requests are still answered, with `Connection: close`; idle connections end after a grace
  // period.
  drain_started_ms_ = context_.now_ms();
  schedule_timer();
}

int64_t HttpSession::deadline_ms() const noexcept {
  const bool is_open = exchange_.is_open() && !exchange_.takes_body();
  if (is_open || !pipeline_.empty() || held()) return base::never_ms;
  const Options& options = context_.options;
  const bool idle = parser_.idle() && connection_.input().empty();
  if (context_.draining && idle) return drain_started_ms_ + options.drain_grace_ms;
  if (in_request_) return phase_started_ms_ + options.header_timeout_ms;
  if (options.idle_timeout_ms == 0) return base::never_ms;
  return phase_started_ms_ + options.idle_timeout_ms;
}

}  // namespace sluice::session
