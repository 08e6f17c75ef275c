#include "connection_watch.hpp"

#include <algorithm>
#include <utility>

#include "session/session.hpp"

namespace sluice::simulation {
namespace {

using Side = ConnectionRecord::Side;

constexpr std::string_view close_header = "\r\nConnection: close\r\n";

}  // namespace

std::string reasons_text(uint32_t reasons) {
  constexpr std::array<std::string_view, 7> names = {
      "the client left",   "its last request", "too many connections",    "the header time-out",
      "the idle time-out", "draining",         "the grace while draining"};
  std::string text;
  for (size_t bit = 0; bit < names.size(); ++bit) {
    if ((reasons >> bit & 1) != 0) text += (text.empty() ? "" : ", ") + std::string(names[bit]);
  }
  return text;
}

std::string_view connection_event_name(ConnectionEvent event) {
  constexpr std::array<std::string_view, connection_events_count> names = {
      "ended: client left",
      "ended: last request",
      "ended: refused",
      "ended: no Hello",
      "ended: half a request",
      "ended: half a frame",
      "ended: late head of http/2",
      "ended: idle",
      "ended: drain, answered",
      "ended: drain, idle",
      "closed: send time-out",
      "closed: linger is over",
      "closed: drain is over",
      "closed: move refused"};
  return names[static_cast<uint32_t>(event)];
}

ConnectionWatch::ConnectionWatch(const server::WorkerOptions& options,
                                 const server::WorkerGroup& group, Failure& failure)
    : options_(options.sessions),
      drain_ms_(options.drain_ms),
      connections_max_(options.connections_max),
      group_(group),
      failure_(failure) {}

void ConnectionWatch::watch(server::Worker& worker) {
  shards_.emplace_back(worker);
}

ConnectionRecord& ConnectionWatch::of(uint32_t link) {
  while (records_.size() <= link) records_.emplace_back();
  return records_[link];
}

bool ConnectionWatch::drains(const ConnectionRecord& record) const {
  return shards_[record.shard].drain_ms != never;
}

bool ConnectionWatch::is_http(const ConnectionRecord& record) const {
  return record.listener == server::http_listener;
}

void ConnectionWatch::fail(const ConnectionRecord& record, const std::string& text,
                           int64_t now_ms) {
  const auto link =
      std::ranges::find_if(records_, [&](const ConnectionRecord& one) { return &one == &record; });
  failure_.report("connection " + std::to_string(link - records_.begin()) +
                  (record.is_http2() ? " (http/2)"
                   : is_http(record) ? " (http)"
                                     : " (native)") +
                  " of shard " + std::to_string(record.shard) + " " + text + ", at " +
                  std::to_string(now_ms) + " ms: placed " + std::to_string(record.placed_ms) +
                  ", last byte " + std::to_string(record.delivered_ms) + ", part begun " +
                  (record.has_part() ? std::to_string(record.begun_ms) : "never") + ", last send " +
                  std::to_string(record.sent_ms) + ", taken " + std::to_string(record.taken_ms) +
                  (record.is_sending ? ", sending" : "") + ", ended " +
                  std::to_string(record.finished_ms) + ", drain " +
                  std::to_string(shards_[record.shard].drain_ms));
}

// ------------------------------------------------------------------------------ its placement

void ConnectionWatch::add(const ConnectionRecord& record, int32_t by) {
  shards_[record.counted_at].connections[record.listener] += static_cast<uint32_t>(by);
}

// Other workers count while this one works through its events: each is applied in its turn.
void ConnectionWatch::apply_until(uint32_t link) {
  while (!pending_.empty()) {
    const Pending next = pending_.front();
    pending_.pop_front();
    ConnectionRecord& record = records_[next.link];
    if (next.accepted) {
      place(record);
    } else if (record.counts) {
      record.counts = false;
      add(record, -1);
    }
    if (next.link == link && next.accepted) return;
  }
}

// The shard with the fewest connections of its kind; where it was accepted, if no other has fewer.
void ConnectionWatch::place(ConnectionRecord& record) {
  uint32_t all = 0;
  for (const ShardState& shard : shards_) all += shard.connections[0] + shard.connections[1];
  record.refused = all >= connections_max_;
  if (record.refused) return;
  record.counted_at = record.shard;
  for (uint32_t shard = 0; shard < shards_.size() && !drains(record); ++shard) {
    const auto count = [&](uint32_t of) { return shards_[of].connections[record.listener]; };
    if (count(shard) < count(record.counted_at)) record.counted_at = shard;
  }
  record.counts = true;
  add(record, 1);
}

void ConnectionWatch::on_receive_start(uint32_t link, int64_t now_ms) {
  ConnectionRecord& record = records_[link];
  if (record.side != Side::accepted) return;
  apply_until(link);
  record.side = Side::placed;
  record.placed_ms = now_ms;
  if (!record.refused && record.counted_at != record.shard) {
    fail(record, "stays, although another shard has fewer connections", now_ms);
  }
}

void ConnectionWatch::on_release(uint32_t link) {
  ConnectionRecord& record = records_[link];
  if (record.side == Side::accepted) {
    apply_until(link);
    if (record.refused) fail(record, "moves instead of being refused", record.delivered_ms);
  } else {
    if (record.wanted_shard >= shards_.size()) fail(record, "moves unasked", record.delivered_ms);
    if (failure_) return;
    add(record, -1);
    record.counted_at = record.wanted_shard;
    add(record, 1);
  }
  if (record.counted_at == record.shard)
    fail(record, "moves to its own shard", record.delivered_ms);
  record.side = Side::leaving;
}

void ConnectionWatch::on_adopted(uint32_t shard, uint32_t link, io::SocketId socket,
                                 int64_t now_ms) {
  ConnectionRecord& record = records_[link];
  record.shard = shard;
  record.socket = socket;
  record.caught_up_ms = never;
  record.drains_from = drains(record) ? 0 : no_offset;
  record.side = Side::placed;
  record.placed_ms = now_ms;
  // Its new shard gets these events again.
  record.peer_ended = false;
  record.stream_ended = false;
  record.failed = false;
  if (record.counted_at != shard) fail(record, "came to the wrong shard", now_ms);
}

void ConnectionWatch::on_discard(uint32_t link, bool had_slot) {
  ConnectionRecord& record = records_[link];
  if (had_slot) fail(record, "was dropped by a shard with room for it", record.delivered_ms);
  record.side = Side::gone;
  record.was_cut_off = true;
  std::erase(open_, link);
  if (std::exchange(record.counts, false)) add(record, -1);
  count(ConnectionEvent::move_refused);
}

void ConnectionWatch::check_counts() {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    for (const io::ListenerId listener : {server::http_listener, server::native_listener}) {
      const uint32_t expected = shards_[shard].connections[listener];
      const uint32_t counted = group_.connections(shard, listener);
      if (counted == expected) continue;
      failure_.report("shard " + std::to_string(shard) + " counts " + std::to_string(counted) +
                      (listener == server::http_listener ? " http" : " native") +
                      " connections and has " + std::to_string(expected));
    }
  }
}

void ConnectionWatch::check_none_left() {
  if (!open_.empty())
    failure_.report(std::to_string(open_.size()) + " connections left at the end");
  check_counts();
  for (const ShardState& shard : shards_) {
    if (shard.connections[0] + shard.connections[1] == 0) continue;
    failure_.report("connections still count at the end");
  }
}

// ------------------------------------------------------------------------------- what happens

void ConnectionWatch::on_event(uint32_t shard, uint32_t link, const io::Event& event,
                               int64_t now_ms) {
  ConnectionRecord& record = of(link);
  switch (event.kind) {
    case io::EventKind::accepted:
      record.shard = shard;
      record.drains_from = drains(record) ? 0 : no_offset;
      record.side = Side::accepted;
      record.socket = event.socket;
      open_.push_back(link);
      pending_.push_back({.shard = shard, .link = link, .accepted = true});
      return;
    case io::EventKind::received:
      return on_delivered(link, event.bytes.size(), now_ms);
    case io::EventKind::end_of_stream:
      record.stream_ended = true;
      record.peer_ended = true;
      return;
    case io::EventKind::hung_up:
      record.peer_ended = true;
      return;
    case io::EventKind::failed:
      record.failed = true;
      return;
    case io::EventKind::sent:
      record.is_sending = false;
      record.taken_ms = now_ms;
      record.failed |= event.result < 0;
      return;
    case io::EventKind::closed:
      record.side = Side::gone;
      std::erase(open_, link);
      pending_.push_back({.shard = shard, .link = link, .accepted = false});
      return;
    default:
      return;
  }
}

void ConnectionWatch::on_delivered(uint32_t link, size_t bytes, int64_t now_ms) {
  if (bytes == 0) return;
  ConnectionRecord& record = records_[link];
  const uint64_t before = record.delivered;
  record.delivered += bytes;
  record.delivered_ms = now_ms;
  while (!record.not_whole.empty() && record.not_whole.front().end <= record.delivered) {
    record.request_begin = record.not_whole.front().end;
    if (record.not_whole.front().frame == SentRequest::Frame::head) record.stream_ms = now_ms;
    record.not_whole.pop_front();
    ++record.requests;
  }
  if (record.request_begin >= before) record.begun_ms = now_ms;
  if (record.is_http2() && record.http2_ms == never) record.http2_ms = now_ms;
}

void ConnectionWatch::begin_turn(uint32_t shard, bool has_slept, int64_t now_ms) {
  ShardState& state = shards_[shard];
  state.writes_from_ms = has_slept ? now_ms : state.turn_ms;
  state.turn_ms = now_ms;
}

void ConnectionWatch::on_send(uint32_t link, std::span<const std::byte> bytes, int64_t now_ms) {
  ConnectionRecord& record = records_[link];
  if (is_http(record) && !record.said_close) {
    record.sent_end.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    record.said_close = record.sent_end.find(close_header) != std::string::npos;
    const size_t kept = std::min(record.sent_end.size(), close_header.size());
    record.sent_end.erase(0, record.sent_end.size() - kept);
  }
  // Behind another send its bytes may have been written at any time since that; and a turn may have
  // written them behind its own sends.
  const int64_t from_ms = std::min(shards_[record.shard].writes_from_ms, now_ms);
  record.written_ms = record.taken_ms >= from_ms ? record.sent_ms : from_ms;
  record.sent_ms = now_ms;
  record.is_sending = true;
  const bool is_over = record.is_http2() && record.sent_frames.add(bytes);
  if (record.frames_ms == never && record.sent_frames.has_begun()) record.frames_ms = now_ms;
  if (is_over) record.stream_ms = std::max(record.stream_ms, record.written_ms);
}

void ConnectionWatch::begin_drain(uint32_t shard, int64_t now_ms) {
  shards_[shard].drain_ms = now_ms;
  if (!drains_anywhere()) first_drain_ms_ = now_ms;
  for (const uint32_t link : open_) {
    ConnectionRecord& record = records_[link];
    if (record.shard != shard) continue;
    record.drains_from = record.delivered;
    record.lacked_hello_at_drain = record.is_open() && !is_http(record) && record.requests == 0;
    const bool is_ending = record.may_end_ms != never;
    record.was_open_at_drain =
        record.is_open() && !is_ending && record.was_welcomed && !record.failed;
  }
}

// --------------------------------------------------------------------------------- predictions

// Since when the server waits for the rest of a request, or for the first one.
int64_t ConnectionWatch::unfinished_since_ms(const ConnectionRecord& record) const {
  if (record.requests == 0) return record.placed_ms;
  // Behind the answer to an upgrade comes HTTP/2's preface.
  const bool awaits_preface = record.upgrades && record.requests == 1;
  if (awaits_preface) return std::max(record.http2_ms, record.placed_ms);
  // A part of a body has its stream's time.
  return record.has_part() && !record.is_in_body() ? std::max(record.begun_ms, record.placed_ms)
                                                   : never;
}

// Every reason for which the server may have ended its side by now.
uint32_t ConnectionWatch::may_finish(const ConnectionRecord& record, int64_t now_ms) const {
  if (record.is_http2() && !record.said_close) return may_finish_http2(record, now_ms);
  uint32_t reasons = 0;
  if (record.peer_ended) reasons |= why::peer_left;
  const bool answered_last = !is_http(record) || record.said_close;
  if (answered_last && record.delivered > record.last_request_from) reasons |= why::last_request;
  if (record.refused) reasons |= why::refused;
  const int64_t since_ms = unfinished_since_ms(record);
  const bool is_late = since_ms != never && now_ms >= since_ms + options_.header_timeout_ms;
  if (is_late) reasons |= why::header_timeout;
  const int64_t idle_ms = now_ms - std::max(record.delivered_ms, record.written_ms);
  const bool is_idle = is_http(record) && record.requests > 0 && !record.has_part();
  const bool may_be_idle = options_.idle_timeout_ms > 0;
  if (is_idle && may_be_idle && idle_ms >= options_.idle_timeout_ms) reasons |= why::idle_timeout;
  // Another shard, which drains, may have denied a request of this one.
  if (drains_anywhere() && record.said_close) reasons |= why::drain_answer;
  if (!drains(record)) return reasons;
  const int64_t drain_ms = shards_[record.shard].drain_ms;
  if (!is_http(record) && !record.was_welcomed) reasons |= why::drain_answer;
  const int64_t grace_ms = now_ms - std::max(drain_ms, record.placed_ms);
  // Half a native frame does not hold up the drain.
  const bool asks = is_http(record) && record.has_part();
  if (!asks && grace_ms >= drain_grace_ms()) reasons |= why::drain_grace;
  return reasons;
}

// The server has answered all that has arrived whole, be it that an entry waits.
bool ConnectionWatch::awaits_client(const ConnectionRecord& record) const {
  // A session of HTTP/2 takes the connection over between two turns, and sends first.
  if (record.is_http2() && record.sent_ms == never) return false;
  return record.caught_up_ms != never && record.undecided_end > record.delivered;
}

// Of the next request no more has arrived than a part of its head.
bool ConnectionWatch::awaits_head(const ConnectionRecord& record) {
  return record.not_whole.empty() || record.delivered < record.not_whole.front().head_end;
}

// It may have decided to end, and does so behind this send, or behind what others decide.
bool ConnectionWatch::is_ending(const ConnectionRecord& record) const {
  const bool awaits_others = (!is_http(record) || record.is_http2()) && shards_.size() > 1;
  const bool has_undecided = record.undecided_end <= record.delivered;
  return record.is_sending || (awaits_others && has_undecided);
}

ConnectionWatch::Deadlines ConnectionWatch::deadlines(const ConnectionRecord& record) const {
  if (record.is_http2()) return http2_deadlines(record);
  Deadlines due;
  if (!awaits_client(record)) return due;
  const ShardState& shard = shards_[record.shard];
  const bool is_idle = is_http(record) ? !record.has_part() : record.was_welcomed;
  if (drains(record) && is_idle && record.open_end > record.delivered) {
    due.grace_ms = std::max(shard.drain_ms, record.placed_ms) + drain_grace_ms();
    if (is_http(record)) return due;
  }
  // The server may have taken the last bytes only when it had caught up, or had been read.
  const int64_t taken_up_ms =
      std::max({record.placed_ms, record.sent_ms, record.taken_ms, record.caught_up_ms});
  const int64_t since_ms = unfinished_since_ms(record);
  if (since_ms != never && awaits_head(record)) {
    due.header_ms = std::max(since_ms, taken_up_ms) + options_.header_timeout_ms;
  }
  if (is_http(record) && is_idle && record.requests > 0 && options_.idle_timeout_ms > 0) {
    due.idle_ms = std::max(record.delivered_ms, taken_up_ms) + options_.idle_timeout_ms;
  }
  return due;
}

// Every reason for which it must have.
uint32_t ConnectionWatch::must_finish(const ConnectionRecord& record, int64_t now_ms) const {
  if (record.caught_up_ms == never) return 0;
  uint32_t reasons = 0;
  if (record.lacked_hello_at_drain) reasons |= why::drain_answer;
  if (record.refused) reasons |= why::refused;
  if (record.saw_last_answer) reasons |= why::last_request;
  // Nobody waits for what would be granted. REST reads nothing behind a waiter. Another shard may
  // have queued it, and its answer be under way.
  const bool gives_up = is_http(record) && record.has_waiter && record.is_known_to_wait;
  // Another shard may decide by a whole head, while the body is still to come.
  const bool is_decided_by_head =
      is_http(record) && shards_.size() > 1 && awaits_client(record) && !awaits_head(record);
  const bool is_served =
      (gives_up || (awaits_client(record) && !is_decided_by_head)) && !record.has_hidden_stream;
  if (record.stream_ended && is_served) reasons |= why::peer_left;
  const Deadlines due = deadlines(record);
  if (now_ms >= due.header_ms) reasons |= why::header_timeout;
  if (now_ms >= due.idle_ms) reasons |= why::idle_timeout;
  if (now_ms >= due.grace_ms) reasons |= why::drain_grace;
  return reasons;
}

// Counted from the server's end: its last answer may have taken long to leave.
int64_t ConnectionWatch::linger_deadline_ms(const ConnectionRecord& record) const {
  if (record.side != Side::finished) return base::never_ms;
  return record.finished_ms + (record.refused
                                   ? std::min(options_.linger_ms, options_.refused_linger_ms)
                                   : options_.linger_ms);
}

int64_t ConnectionWatch::send_deadline_ms(const ConnectionRecord& record) const {
  return record.is_sending ? record.sent_ms + options_.send_timeout_ms : base::never_ms;
}

int64_t ConnectionWatch::drain_deadline_ms(const ConnectionRecord& record) const {
  return drains(record) ? shards_[record.shard].drain_ms + drain_ms_ : base::never_ms;
}

int64_t ConnectionWatch::next_due_ms(uint32_t shard) const {
  int64_t next_ms = base::never_ms;
  for (const uint32_t link : open_) {
    const ConnectionRecord& record = records_[link];
    if (record.shard != shard) continue;
    if (record.side != Side::placed && record.side != Side::finished) continue;
    next_ms = std::min(
        {next_ms, linger_deadline_ms(record), send_deadline_ms(record), drain_deadline_ms(record)});
    next_ms = std::min(next_ms, owed_frame(record).due_ms);
    if (!record.is_open() || is_ending(record)) continue;
    const Deadlines due = deadlines(record);
    next_ms = std::min({next_ms, due.header_ms, due.idle_ms, due.grace_ms});
  }
  return next_ms;
}

bool ConnectionWatch::must_close(const ConnectionRecord& record, int64_t now_ms) const {
  const bool both_ended = record.side == Side::finished && record.stream_ended;
  return both_ended || record.failed || now_ms >= linger_deadline_ms(record) ||
         now_ms >= send_deadline_ms(record) || now_ms >= drain_deadline_ms(record);
}

// ------------------------------------------------------------------------------------ its end

void ConnectionWatch::on_finish(uint32_t link, int64_t now_ms) {
  ConnectionRecord& record = records_[link];
  record.reasons |= may_finish(record, now_ms);
  if (record.reasons == 0) fail(record, "was ended for no reason", now_ms);
  if (record.may_end_ms == never) record.delivered_at_end = record.delivered;
  record.side = Side::finished;
  record.finished_ms = now_ms;
  count_end(record);
}

// Those that only one reason explains.
void ConnectionWatch::count_end(const ConnectionRecord& record) {
  switch (record.reasons) {
    case why::peer_left:
      return count(ConnectionEvent::peer_left);
    case why::last_request:
      return count(ConnectionEvent::last_request);
    case why::refused:
      return count(ConnectionEvent::refused);
    case why::header_timeout:
      if (record.is_http2()) {
        if (record.has_part() && record.not_whole.front().frame == SentRequest::Frame::head) {
          count(ConnectionEvent::late_head);
        }
        return;
      }
      if (is_http(record)) return count(ConnectionEvent::half_request_timeout);
      return count(record.requests == 0 ? ConnectionEvent::hello_timeout
                                        : ConnectionEvent::half_frame_timeout);
    case why::idle_timeout:
      return count(ConnectionEvent::idle_timeout);
    case why::drain_answer:
      return count(ConnectionEvent::drain_answer);
    case why::drain_grace:
      return count(ConnectionEvent::drain_grace);
    default:
      return;
  }
}

void ConnectionWatch::on_close(uint32_t link, int64_t now_ms) {
  if (failure_) return;  // the workers end
  ConnectionRecord& record = records_[link];
  const bool discarded =
      record.delivered > record.delivered_at_end + session::Session::linger_bytes_max;
  const bool sent_too_much = record.side == Side::finished && discarded;
  if (!must_close(record, now_ms) && !sent_too_much) {
    fail(record, "was closed for no reason", now_ms);
  }
  if (!record.failed && now_ms >= send_deadline_ms(record)) count(ConnectionEvent::send_timeout);
  if (!record.failed && !record.stream_ended && now_ms >= linger_deadline_ms(record)) {
    count(ConnectionEvent::linger_timeout);
  }
  if (now_ms >= drain_deadline_ms(record)) count(ConnectionEvent::drain_over);
  record.was_cut_off = record.side != Side::finished;
  record.side = Side::closing;
}

void ConnectionWatch::after_turn(uint32_t shard, int64_t now_ms) {
  apply_until(UINT32_MAX);
  check_counts();
  for (const uint32_t link : open_) {
    ConnectionRecord& record = records_[link];
    if (record.shard != shard) continue;
    follow_catching_up(record, now_ms);
    follow_bodies(record, now_ms);
    check_turn(record, now_ms);
    check_bytes(record, now_ms);
  }
}

// When nothing is open, the session holds no more than the part of a request that has arrived.
void ConnectionWatch::check_bytes(const ConnectionRecord& record, int64_t now_ms) {
  const bool is_quiet = record.is_open() && !record.is_sending && record.may_end_ms == never &&
                        awaits_client(record) && awaits_head(record) &&
                        record.open_end > record.delivered;
  if (!is_quiet || record.delivered > record.last_request_from) return;
  const net::Connection& connection =
      shards_[record.shard].worker->session_of(record.socket)->connection();
  const size_t kept = connection.input().unparsed().size();
  const uint64_t part = record.delivered - record.request_begin;
  const size_t promised = connection.reserved_output_bytes() + connection.output().unsent_bytes();
  if (promised != 0)
    fail(record, "holds " + std::to_string(promised) + " bytes of answers", now_ms);
  if (is_http(record) ? kept > part : kept != part) {
    fail(record,
         "holds " + std::to_string(kept) + " bytes of a request of which " + std::to_string(part) +
             " have arrived",
         now_ms);
  }
}

void ConnectionWatch::follow_catching_up(ConnectionRecord& record, int64_t now_ms) {
  const session::Session* session = shards_[record.shard].worker->session_of(record.socket);
  record.is_known_to_wait = session != nullptr && session->is_waiting();
  if (!record.is_open() || session == nullptr || !session->has_caught_up()) {
    record.caught_up_ms = never;
  } else if (record.caught_up_ms == never) {
    record.caught_up_ms = now_ms;
  }
  const bool may_be_held = record.caught_up_ms == never || record.is_sending;
  if (may_be_held) {
    if (record.held_since_ms == never) record.held_since_ms = now_ms;
  } else if (record.held_since_ms != never) {
    const int64_t held_ms = now_ms - std::exchange(record.held_since_ms, never);
    record.late_from_ms = std::max(record.late_from_ms, now_ms + held_ms);
  }
}

// A reason that appears at the end of a turn, after its timers, acts in the next.
void ConnectionWatch::check_turn(ConnectionRecord& record, int64_t now_ms) {
  if (record.side != Side::placed && record.side != Side::finished) return;
  uint32_t reasons = 0;
  if (record.is_open() && is_ending(record)) {
    const uint32_t now = may_finish(record, now_ms);
    if (now != 0 && record.may_end_ms == never) {
      record.may_end_ms = now_ms;
      record.delivered_at_end = record.delivered;
    }
    record.reasons |= now;
  } else if (record.is_open()) {
    record.reasons = 0;
    record.may_end_ms = never;
    reasons = must_finish(record, now_ms);
  }
  const OwedFrame owed = owed_frame(record);
  const bool owes_frame = now_ms >= owed.due_ms;
  const bool is_due = reasons != 0 || owes_frame || must_close(record, now_ms);
  if (is_due && record.was_due) {
    fail(record,
         reasons != 0 ? "is still open: " + reasons_text(reasons)
         : owes_frame ? "got no " + owed.name
                      : "is still open: should be closed",
         now_ms);
  }
  record.was_due = is_due;
}

}  // namespace sluice::simulation
