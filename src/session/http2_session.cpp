#include "session/http2_session.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "base/assert.hpp"
#include "session/rest_decision.hpp"
#include "wire/http_codec.hpp"

namespace sluice::session {
namespace {

using wire::Http2Error;
using wire::Http2StreamId;

// The stream of a request that asked for the upgrade.
constexpr Http2StreamId upgraded_stream{1};

// The kind of a request of the turn: its answer is JSON.
constexpr uint8_t json_kind = 1;

constexpr wire::HttpRefused too_many_bodies{
    503, "too many request bodies are under way on this connection: send fewer at once"};

// Whether it is so large that it waits while the peer does not read. The number of streams bounds
// all others.
bool has_large_answer(const wire::RestRequest& request, const Options& options) noexcept {
  return std::holds_alternative<wire::RestOpenapi>(request) ||
         RestExchange::gathered_bytes_max(request, options) > 0;
}

}  // namespace

Http2Session::Http2Session(Remains&& remains) noexcept
    : Session(std::move(remains)),
      shared_(context_, *this, *this),
      frames_(wire::http2_preface.size()),
      partial_since_ms_(context_.now_ms()),
      idle_since_ms_(context_.now_ms()) {}

Http2Session::~Http2Session() {
  streams_.clear_and_dispose(Http2Stream::Delete());
}

void Http2Session::begin_http2(std::unique_ptr<Http2Upgrade> upgrade) noexcept {
  mark_ready();
  if (context_.draining) begin_drain();
  if (upgrade == nullptr) return schedule_timer();
  const auto settings = std::as_bytes(std::span(upgrade->settings));
  if (!shared_.framing.upgrade(settings, upgrade->request.method == "HEAD")) {
    return end_connection(Http2Error::protocol_error);
  }
  Http2Stream& stream = open(upgraded_stream);
  stream.head() = {.text = std::move(upgrade->head), .request = upgrade->request};
  stream.count_head();
  begin_request(stream);
  schedule_timer();
}

// --- Bytes ---------------------------------------------------------------------------------

size_t Http2Session::take(std::span<const std::byte> bytes) noexcept {
  size_t taken = 0;
  needed_bytes_ = 0;
  while (may_take() && ask_ready() && make_output_room()) {
    const auto part = frames_.next(bytes.subspan(taken));
    if (part.empty()) break;
    taken += part.size();
    receive(part);
    if (group_count_ >= group_requests && !is_ending()) answer_group();
  }
  const size_t left = bytes.size() - taken;
  if (left > 0) needed_bytes_ = wire::Http2Frames::head_bytes;
  const bool goes_on = left >= wire::Http2Frames::head_bytes || may_ask();
  if (goes_on && context_.work.is_over() && !held()) mark_ready();
  // A body that stalls ends its stream, also within a frame.
  const bool is_in_body = frames_.is_partial() && frames_.type() == wire::Http2Frames::Type::data;
  const bool is_partial = frames_.is_partial() && !is_in_body;
  note_partial(frames_.awaits_continuation() || is_partial || left > 0);
  return taken;
}

void Http2Session::receive(std::span<const std::byte> bytes) noexcept {
  const bool awaited_preface = frames_.awaits_preface();
  const bool is_whole = frames_.taken(bytes.size());
  const size_t head_bytes = frames_.is_head() ? bytes.size() : 0;
  const bool goes_on = shared_.framing.receive(bytes);
  spend(work::frame + work::bytes(bytes.size()) +
        work::fields(head_bytes, shared_.framing.take_decoded_bytes()));
  if (!goes_on) {
    write_output();
    return finish();
  }
  // What is partial from now on is another frame. A head is one until its last CONTINUATION.
  if (is_whole && !frames_.awaits_continuation()) partial_since_ms_ = base::never_ms;
  if (awaited_preface && is_whole) shared_.framing.resume(upgraded_stream);
  if (is_whole && !frames_.count(context_.now_ms())) {
    end_connection(Http2Error::enhance_your_calm);
  }
}

void Http2Session::answer_group() noexcept {
  context_.backend.execute();
  write_output();
  group_count_ = 0;
}

void Http2Session::note_partial(bool is_partial) noexcept {
  if (!is_partial) {
    partial_since_ms_ = base::never_ms;
  } else if (partial_since_ms_ == base::never_ms) {
    partial_since_ms_ = context_.now_ms();
  }
}

// Goes on with streams that wait to ask the shards, or for room. False: the session is held until
// the shards have room.
bool Http2Session::ask_ready() noexcept {
  while (may_ask()) {
    if (held() || !make_query_room()) return false;
    Http2Stream& stream = asking_.front();
    asking_.pop_front();
    if (!stream.is_ready()) continue;
    if (stream.take_put_off()) {
      ++group_count_;
      route(stream);
    } else {
      stream.ask_shards();
    }
    after_event(stream);
  }
  return true;
}

// --- Requests ------------------------------------------------------------------------------

void Http2Session::on_head_begin(Http2StreamId) noexcept {
  frames_.note_request();
  head_.begin();
}

void Http2Session::on_field(std::string_view name, std::string_view value) noexcept {
  head_.add(name, value);
}

void Http2Session::on_head_end(Http2StreamId id, bool has_body) noexcept {
  if (is_ending()) return;
  // The last GOAWAY, which may wait for room in the output, says that those behind it are not
  // served: the client may repeat such a request to another server.
  if (id > last_stream_ || !has_stream_room()) {
    return shared_.framing.reset(id, Http2Error::refused_stream);
  }
  Http2Stream& stream = open(id);
  Http2Stream::Head& head = stream.head();
  head.awaits_body = has_body;
  const auto refused = head_.finish(has_body, head.text, head.request);
  stream.count_head();
  if (refused) {
    stream.refuse(*refused);
    return after_event(stream);
  }
  if (head.request.expects_continue) shared_.framing.answer_continue(id);
  begin_request(stream);
}

void Http2Session::begin_request(Http2Stream& stream) noexcept {
  spend(work::rest_request);
  stream.keep_head();
  route(stream);
  after_event(stream);
}

void Http2Session::route(Http2Stream& stream) noexcept {
  const wire::HttpRequest& request = stream.head().request;
  if (!context_.text.has_room(request.target.size()) || !context_.turn.has_room(1)) {
    context_.backend.execute();
  }
  const wire::RestRequest routed =
      wire::route_request(request, rest_options(context_.options), context_.text.room());
  if (const auto* decision = std::get_if<wire::RestDecision>(&routed)) {
    decide(stream, *decision);
  } else if (!has_answer_room() && has_large_answer(routed, context_.options)) {
    stream.put_off();
  } else {
    stream.begin(routed);
  }
}

void Http2Session::decide(Http2Stream& stream, const wire::RestDecision& decision) noexcept {
  const api::Entry& asked = decision.entry;
  if (context_.draining && asked.op == api::Op::acquire) {
    ++context_.drained_entries;
    return stream.write_decision(
        {.verdict = api::Verdict::draining, .key = asked.key(), .json = decision.json});
  }
  if (!make_lone_room(asked)) return stream.put_off();
  const io::SocketId socket = connection_.socket();
  const route::Request request{.session = socket.index,
                               .generation = socket.generation,
                               .id = static_cast<uint64_t>(stream.id()),
                               .kind = decision.json ? json_kind : uint8_t{0}};
  add_decision(context_, request, decision, stream.log(), shared_.tickets,
               {.session = socket.index, .entry_index = static_cast<uint32_t>(stream.id())});
  stream.set_undecided(true);
}

void Http2Session::on_body(Http2StreamId id, std::span<const std::byte> bytes) noexcept {
  Http2Stream* const stream = find(id);
  if (stream == nullptr) return;
  frames_.note_body();
  if (!stream->add_body(bytes)) {
    stream->refuse(too_many_bodies);
  } else if (stream->has_large_body()) {
    end_large_body(*stream);
  } else {
    return;
  }
  after_event(*stream);
}

// A client gets its answer only if that is whole before the stream ends (RFC 9113, 8.1): until then
// the body is read, and dropped.
void Http2Session::end_large_body(Http2Stream& stream) noexcept {
  if (stream.reads_body()) stream.refuse(wire::http_fault::body_size);
  if (stream.is_sent()) shared_.framing.reset(stream.id(), Http2Error::no_error);
}

void Http2Session::on_body_end(Http2StreamId id) noexcept {
  Http2Stream* const stream = find(id);
  if (stream == nullptr) return;
  stream->end_body();
  after_event(*stream);
}

// --- Answers -------------------------------------------------------------------------------

void Http2Session::on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept {
  Http2Stream& stream = outstanding(request.id);
  const DecidedEntry decided(verdicts);
  const bool is_json = (request.kind & json_kind) != 0;
  stream.set_undecided(false);
  if (decided.is_queued() && !stream.is_closed()) {
    stream.wait(decided.entry, decided.detail.request_id, is_json);
  } else {
    end_decision(context_, shared_.tickets, decided, is_json, stream.is_closed(), stream);
  }
  after_event(stream);
}

void Http2Session::on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept {
  Http2Stream& stream = outstanding(entry.entry_index);
  stream.exchange()->on_granted(entry, grant);
  after_event(stream);
}

void Http2Session::on_inspected(uint64_t id, const api::KeyState* state) noexcept {
  on_reply(id, [&](RestExchange& exchange) { exchange.on_inspected(state); });
}

void Http2Session::on_page(uint64_t id, std::span<const api::KeyState> keys,
                           uint64_t next_cursor) noexcept {
  spend(keys.size() * work::debug_key);
  on_reply(id, [&](RestExchange& exchange) { exchange.on_page(keys, next_cursor); });
}

void Http2Session::on_counted(uint64_t id, uint64_t keys_count) noexcept {
  on_reply(id, [&](RestExchange& exchange) { exchange.on_counted(keys_count); });
}

void Http2Session::on_text(uint64_t id, std::string_view content_type,
                           std::string_view text) noexcept {
  spend(work::bytes(text.size()));
  on_reply(id, [&](RestExchange& exchange) { exchange.on_text(content_type, text); });
}

void Http2Session::on_quota(uint64_t id, const api::QuotaBatch& batch) noexcept {
  spend(work::of(batch));
  on_reply(id, [&](RestExchange& exchange) { exchange.on_quota(batch); });
}

// A shard's reply to a stream, which may be closed meanwhile.
template <typename Handle>
void Http2Session::on_reply(uint64_t id, Handle handle) noexcept {
  Http2Stream& stream = outstanding(id);
  handle(*stream.exchange());
  after_event(stream);
}

// Grants go on, and GET /debug; then everything is written that the peer has room for.
void Http2Session::write_outcomes() noexcept {
  if (connection_.finishing()) return;
  for (auto next = unfinished_.begin(); next != unfinished_.end();) {
    Http2Stream& stream = *next++;
    if (stream.is_unfinished() && stream.end_turn()) mark_ready();
    follow(stream);
  }
  write_output();
  if (may_ask() && !held()) mark_ready();  // the peer has read on
  group_count_ = 0;
  connection_.trim_input();
  if (!shared_.framing.is_open()) finish();
  schedule_timer();  // once for all events of the turn
}

void Http2Session::write_output() noexcept {
  while (!connection_.closing()) {
    if (connection_.output_over_high()) return hold(held_by_output);
    const std::span<const std::byte> next = shared_.framing.next();
    if (next.empty()) return;
    std::memcpy(connection_.output().room(next.size()).data(), next.data(), next.size());
    connection_.output().commit(next.size());
    shared_.framing.taken(next.size());
    spend(work::bytes(next.size()));
  }
}

// After an upgrade bodies follow the peer's preface: curl has room for 32 KiB behind the 101.
wire::Http2Events::BodyPart Http2Session::read_body(Http2StreamId id,
                                                    std::span<std::byte> out) noexcept {
  if (frames_.awaits_preface()) return {};
  Http2Stream* const stream = find(id);
  if (stream == nullptr) return {.is_last = true};
  const BodyPart part = stream->read_body(out);
  frames_.note_sent(part.bytes);
  return part;
}

void Http2Session::on_answer_sent(Http2StreamId id, size_t frame_bytes) noexcept {
  Http2Stream* const stream = find(id);
  if (stream == nullptr) return;
  stream->on_sent();
  on_reply_written(std::array{stream->take_reservation()}, frame_bytes);
  if (stream->has_large_body()) end_large_body(*stream);
}

// --- Streams -------------------------------------------------------------------------------

Http2Stream& Http2Session::open(Http2StreamId id) noexcept {
  Http2Stream& stream = Http2Stream::make(shared_, id);
  streams_.insert(streams_.end(), stream);
  ++group_count_;
  return stream;
}

Http2Stream* Http2Session::find(Http2StreamId id) noexcept {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &*found;
}

Http2Stream& Http2Session::outstanding(uint64_t id) noexcept {
  Http2Stream* const stream = find(static_cast<Http2StreamId>(id));
  ASSERT(stream != nullptr);
  return *stream;
}

void Http2Session::after_event(Http2Stream& stream) noexcept {
  mark_dirty();
  follow(stream);
}

void Http2Session::follow(Http2Stream& stream) noexcept {
  stream.settle();
  if (stream.is_ready() && !stream.SessionHook<AskingTag>::is_linked()) {
    asking_.push_back(stream);
    if (may_ask() && !held()) mark_ready();
  }
  SessionHook<UnfinishedTag>& unfinished = stream;
  if (!stream.is_unfinished()) {
    unfinished.unlink();
  } else if (!unfinished.is_linked()) {
    unfinished_.push_back(stream);
  }
  streams_due_ms_ = std::min(streams_due_ms_, stream_deadline_ms(stream));
  remove_if_over(stream);
}

void Http2Session::on_closed(Http2StreamId id) noexcept {
  Http2Stream* const stream = find(id);
  if (stream == nullptr) return;
  close(*stream);
  after_event(*stream);
}

// A peer may reset streams by its own errors, too (CVE-2025-8671).
void Http2Session::on_error_reset() noexcept {
  if (frames_.count_reset(context_.now_ms())) return;
  shared_.framing.terminate(Http2Error::enhance_your_calm);
}

// A reservation that no client will hear of ends.
void Http2Session::close(Http2Stream& stream) noexcept {
  stream.close();
  const uint64_t reservation = stream.take_reservation();
  if (reservation != 0) context_.backend.cancel_undelivered(reservation);
}

void Http2Session::remove_if_over(Http2Stream& stream) noexcept {
  if (!stream.is_closed() || stream.is_outstanding()) return;
  streams_.erase_and_dispose(streams_.iterator_to(stream), Http2Stream::Delete());
  idle_since_ms_ = context_.now_ms();
}

void Http2Session::drop_waiting() noexcept {
  write_output();  // the answers of this turn, while there is somewhere to write them
  for (Http2Stream& stream : streams_) close(stream);
}

bool Http2Session::has_waiting() const noexcept {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Http2Stream& stream) { return stream.is_waiting(); });
}

// --- The connection's end ------------------------------------------------------------------

void Http2Session::end_connection(Http2Error error) noexcept {
  shared_.framing.terminate(error);
  write_output();
  finish();
}

void Http2Session::write_refusal() noexcept {
  end_connection(Http2Error::refused_stream);
}

void Http2Session::begin_drain() noexcept {
  shared_.framing.announce_end();
  drain_started_ms_ = context_.now_ms();
  mark_dirty();
  schedule_timer();
}

int64_t Http2Session::stream_deadline_ms(const Http2Stream& stream) const noexcept {
  if (stream.is_closed() || stream.is_reset()) return base::never_ms;
  const Options& options = context_.options;
  int64_t deadline = base::never_ms;
  if (stream.awaits_body()) deadline = stream.started_ms() + options.header_timeout_ms;
  if (stream.is_unread()) deadline = std::min(deadline, stream.unread_since_ms() + unread_ms_max);
  return deadline;
}

int64_t Http2Session::idle_deadline_ms() const noexcept {
  if (!streams_.empty()) return base::never_ms;
  const int64_t idle_ms = context_.options.idle_timeout_ms;
  return idle_since_ms_ + (idle_ms == 0 ? idle_ms_max : std::min(idle_ms, idle_ms_max));
}

// Not while the session is held: then it takes no rest.
int64_t Http2Session::partial_deadline_ms() const noexcept {
  const bool awaits_rest = partial_since_ms_ != base::never_ms && !held();
  return awaits_rest ? partial_since_ms_ + context_.options.header_timeout_ms : base::never_ms;
}

int64_t Http2Session::last_goaway_deadline_ms() const noexcept {
  const bool is_due = drain_started_ms_ != base::never_ms && !has_last_stream();
  return is_due ? drain_started_ms_ + context_.options.drain_grace_ms : base::never_ms;
}

int64_t Http2Session::deadline_ms() const noexcept {
  return std::min(
      {partial_deadline_ms(), last_goaway_deadline_ms(), streams_due_ms_, idle_deadline_ms()});
}

void Http2Session::on_deadline() noexcept {
  const int64_t now_ms = context_.now_ms();
  if (std::min(partial_deadline_ms(), idle_deadline_ms()) <= now_ms) {
    return end_connection(Http2Error::no_error);
  }
  if (streams_due_ms_ <= now_ms) end_late_streams();
  if (last_goaway_deadline_ms() <= now_ms) submit_last_goaway();
  mark_dirty();
}

void Http2Session::submit_last_goaway() noexcept {
  last_stream_ = shared_.framing.go_away(Http2Error::no_error);
}

void Http2Session::end_drain() noexcept {
  if (has_last_stream() || is_ending()) return;
  submit_last_goaway();
  mark_dirty();
}

void Http2Session::end_late_streams() noexcept {
  const int64_t now_ms = context_.now_ms();
  streams_due_ms_ = base::never_ms;
  for (Http2Stream& stream : streams_) {
    const int64_t deadline = stream_deadline_ms(stream);
    if (deadline <= now_ms) {
      stream.set_reset();
      // Without an error where only the rest of a body is missing (RFC 9113, 8.1).
      shared_.framing.reset(stream.id(),
                            stream.is_sent() ? Http2Error::no_error : Http2Error::cancel);
    } else {
      streams_due_ms_ = std::min(streams_due_ms_, deadline);
    }
  }
}

}  // namespace sluice::session
