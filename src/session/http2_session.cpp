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
      times_(context_.options, context_.now_ms()) {}

Http2Session::~Http2Session() = default;

void Http2Session::begin_http2(std::unique_ptr<Http2Upgrade> upgrade) noexcept {
  mark_ready();
  if (context_.draining) begin_drain();
  if (upgrade == nullptr) return schedule_timer();
  const auto settings = std::as_bytes(std::span(upgrade->settings));
  if (!shared_.framing.upgrade(settings, upgrade->request.method == "HEAD")) {
    return end_connection(Http2Error::protocol_error);
  }
  Http2Stream& stream = open(upgraded_stream);
  stream.set_head(std::move(upgrade->head), upgrade->request);
  begin_request(stream);
  schedule_timer();
}

// --- Bytes ---------------------------------------------------------------------------------

size_t Http2Session::take(std::span<const std::byte> bytes) noexcept {
  times_.note_hold(held(), context_.now_ms());
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
  if (frames_.awaits_continuation() || is_partial || left > 0) {
    times_.note_partial(context_.now_ms());
  } else {
    times_.note_whole();
  }
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
  if (is_whole && !frames_.awaits_continuation()) times_.note_whole();
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

// Goes on with streams that wait to ask the shards, or for room. False: the session is held until
// the shards have room. Decisions come first: their answers are small.
bool Http2Session::ask_ready() noexcept {
  while (may_ask()) {
    const bool decides = streams_.has_to_decide();
    if (held() || !(decides || make_query_room())) return false;
    Http2Stream& stream = decides ? streams_.next_to_decide() : streams_.next_asking();
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
  if (const auto refused = stream.read_head(head_, has_body)) {
    stream.refuse(*refused);
    return after_event(stream);
  }
  if (stream.request().expects_continue) shared_.framing.answer_continue(id);
  begin_request(stream);
}

void Http2Session::begin_request(Http2Stream& stream) noexcept {
  spend(work::rest_request);
  stream.keep_head();
  route(stream);
  after_event(stream);
}

void Http2Session::route(Http2Stream& stream) noexcept {
  const wire::HttpRequest& request = stream.request();
  if (!context_.text.has_room(request.target.size()) || !context_.turn.has_room(1)) {
    context_.backend.execute();
  }
  const wire::RestRequest routed =
      wire::route_request(request, rest_options(context_.options), context_.text.room());
  if (const auto* decision = std::get_if<wire::RestDecision>(&routed)) {
    decide(stream, *decision);
  } else if (!has_answer_room() && has_large_answer(routed, context_.options)) {
    stream.put_off();
  } else if (std::holds_alternative<wire::RestDebug>(routed) && shared_.walks_count > 0) {
    // A connection has one at a time, as over HTTP/1.1: the shards refuse all but a few.
    stream.put_off();
    streams_.wait_for_walk(stream);
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
  if (!make_lone_room(asked)) {
    stream.put_off();
    return streams_.wait_for_shard(stream);
  }
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
  Http2Stream* const stream = streams_.find(id);
  if (stream == nullptr) return;
  frames_.note_body();
  stream->on_body(bytes);
  after_event(*stream);
}

void Http2Session::on_body_end(Http2StreamId id) noexcept {
  Http2Stream* const stream = streams_.find(id);
  if (stream == nullptr) return;
  stream->on_body_end();
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
  streams_.for_unfinished([&](Http2Stream& stream) {
    if (stream.is_unfinished() && stream.end_turn()) mark_ready();
    follow(stream);
  });
  write_output();
  if (may_ask() && !held()) mark_ready();  // the peer has read on
  group_count_ = 0;
  times_.note_hold(held(), context_.now_ms());
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
  Http2Stream* const stream = streams_.find(id);
  if (stream == nullptr) return {.is_last = true};
  const BodyPart part = stream->read_answer(out);
  frames_.note_sent(part.bytes);
  return part;
}

void Http2Session::on_answer_sent(Http2StreamId id, size_t frame_bytes) noexcept {
  Http2Stream* const stream = streams_.find(id);
  if (stream == nullptr) return;
  on_reply_written(std::array{stream->on_answer_sent()}, frame_bytes);
}

// --- Streams -------------------------------------------------------------------------------

Http2Stream& Http2Session::open(Http2StreamId id) noexcept {
  ++group_count_;
  times_.end_idle();
  return streams_.open(shared_, id);
}

Http2Stream& Http2Session::outstanding(uint64_t id) noexcept {
  Http2Stream* const stream = streams_.find(static_cast<Http2StreamId>(id));
  ASSERT(stream != nullptr);
  return *stream;
}

void Http2Session::after_event(Http2Stream& stream) noexcept {
  mark_dirty();
  follow(stream);
}

void Http2Session::follow(Http2Stream& stream) noexcept {
  stream.settle();
  bool asks = streams_.note(stream);
  times_.note_stream(stream.deadline_ms());
  remove_if_over(stream);
  const bool may_walk = shared_.walks_count == 0 && !streams_.has_asking();
  if (may_walk && streams_.end_wait_for_walk()) asks = true;
  if (asks && may_ask() && !held()) mark_ready();
}

void Http2Session::on_closed(Http2StreamId id) noexcept {
  Http2Stream* const stream = streams_.find(id);
  if (stream == nullptr) return;
  stream->close();
  after_event(*stream);
}

// A peer may reset streams by its own errors, too (CVE-2025-8671).
void Http2Session::on_error_reset() noexcept {
  if (frames_.count_reset(context_.now_ms())) return;
  shared_.framing.terminate(Http2Error::enhance_your_calm);
}

void Http2Session::remove_if_over(Http2Stream& stream) noexcept {
  if (!stream.is_closed() || stream.is_outstanding()) return;
  streams_.remove(stream);
  if (streams_.empty()) times_.begin_idle(context_.now_ms());
}

void Http2Session::drop_waiting() noexcept {
  write_output();  // the answers of this turn, while there is somewhere to write them
  for (Http2Stream& stream : streams_) stream.close();
}

bool Http2Session::has_waiting() const noexcept {
  return streams_.is_any_waiting();
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
  times_.expect_last_goaway(context_.now_ms());
  mark_dirty();
  schedule_timer();
}

int64_t Http2Session::deadline_ms() const noexcept {
  return times_.deadline_ms();
}

void Http2Session::on_deadline() noexcept {
  const int64_t now_ms = context_.now_ms();
  mark_dirty();
  if (times_.is_goaway_due(now_ms)) submit_last_goaway();
  write_output();  // the peer may have opened its windows in this turn
  times_.note_hold(held(), now_ms);
  if (times_.is_over(now_ms)) return end_connection(Http2Error::no_error);
  if (times_.take_due_streams(now_ms)) end_late_streams();
}

void Http2Session::submit_last_goaway() noexcept {
  last_stream_ = shared_.framing.go_away(Http2Error::no_error);
  times_.note_last_goaway();
}

void Http2Session::end_drain() noexcept {
  if (has_last_stream() || is_ending()) return;
  submit_last_goaway();
  mark_dirty();
}

// Each walk that a client does not read keeps other clients from theirs: none of those that it has
// asked for begins any more.
void Http2Session::end_late(Http2Stream& stream) noexcept {
  if (stream.is_unread_walk(context_.now_ms())) streams_.reset_put_off();
  stream.reset();
}

void Http2Session::end_late_streams() noexcept {
  for (Http2Stream& stream : streams_) {
    if (stream.deadline_ms() <= context_.now_ms()) end_late(stream);
    times_.note_stream(stream.deadline_ms());
  }
}

}  // namespace sluice::session
