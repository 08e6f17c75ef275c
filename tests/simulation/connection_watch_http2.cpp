// ConnectionWatch's predictions for connections of HTTP/2: when they end, and which frames the
// server must have sent.
#include <algorithm>

#include "connection_watch.hpp"
#include "session/http2_session.hpp"

namespace sluice::simulation {
namespace {

// How long a connection of HTTP/2 stays without a stream, at most.
constexpr int64_t http2_idle_ms_max = session::Http2Times::idle_ms_max;

}  // namespace

// A connection of HTTP/2 that the server ends gets GOAWAY; two, if it drains.
uint32_t ConnectionWatch::may_finish_http2(const ConnectionRecord& record, int64_t now_ms) const {
  uint32_t reasons = 0;
  if (record.peer_ended) reasons |= why::peer_left;
  if (record.refused) reasons |= why::refused;
  if (record.delivered > record.last_request_from) reasons |= why::last_request;
  const int64_t since_ms = unfinished_since_ms(record);
  const bool is_late = since_ms != never && now_ms >= since_ms + options_.header_timeout_ms;
  if (is_late) reasons |= why::header_timeout;
  const int64_t idle_since_ms = std::max({record.http2_ms, record.placed_ms, record.stream_ms});
  if (now_ms >= idle_since_ms + http2_idle_ms()) reasons |= why::idle_timeout;
  if (!drains(record)) return reasons;
  // The end of the drain comes before the grace of a connection that was placed late.
  const int64_t drain_ms = std::max(shards_[record.shard].drain_ms, record.placed_ms);
  const int64_t ends_ms = std::min(drain_ms + drain_grace_ms(), drain_deadline_ms(record));
  if (now_ms >= ends_ms) reasons |= why::drain_grace;
  return reasons;
}

int64_t ConnectionWatch::http2_idle_ms() const {
  const int64_t idle_ms = options_.idle_timeout_ms;
  return idle_ms == 0 ? http2_idle_ms_max : std::min(idle_ms, http2_idle_ms_max);
}

ConnectionWatch::Deadlines ConnectionWatch::http2_deadlines(const ConnectionRecord& record) const {
  Deadlines due;
  if (!awaits_client(record)) return due;
  const int64_t taken_up_ms = std::max(
      {record.placed_ms, record.http2_ms, record.sent_ms, record.taken_ms, record.caught_up_ms});
  const int64_t since_ms = unfinished_since_ms(record);
  if (since_ms != never && awaits_head(record)) {
    due.header_ms =
        std::max(std::max(since_ms, taken_up_ms) + options_.header_timeout_ms, record.late_from_ms);
  }
  if (record.open_end <= record.delivered || record.has_hidden_stream) return due;
  due.idle_ms =
      std::max(std::max(record.delivered_ms, taken_up_ms) + http2_idle_ms(), record.late_from_ms);
  if (!drains(record)) return due;
  if (!record.sent_frames.last_stream()) {
    due.grace_ms = std::max(shards_[record.shard].drain_ms, taken_up_ms) + drain_grace_ms();
  } else if (due.header_ms == base::never_ms) {
    // Behind GOAWAY with the last stream nothing is waited for but the rest of a head before it.
    due.grace_ms = taken_up_ms;
  }
  return due;
}

// Since when the server waits for the rest of a body: it may have had the head for longer.
void ConnectionWatch::follow_bodies(ConnectionRecord& record, int64_t now_ms) {
  for (const auto& [stream, body] : record.bodies) {
    if (body.end <= record.delivered) record.whole_ms.emplace(stream, now_ms);
  }
  std::erase_if(record.bodies, [&](const auto& one) {
    return one.second.end <= record.delivered || record.sent_frames.has_reset(one.first);
  });
  if (record.caught_up_ms == never || record.frames_ms == never) return;
  for (auto& [stream, body] : record.bodies) {
    if (body.begun_ms == never && body.head_end <= record.delivered) body.begun_ms = now_ms;
  }
}

ConnectionWatch::OwedFrame ConnectionWatch::owed_frame(const ConnectionRecord& record) const {
  const SentFrames& sent = record.sent_frames;
  const bool goes_on = record.is_open() && record.caught_up_ms != never && !record.is_sending &&
                       !record.peer_ended && !record.failed && !record.refused &&
                       record.delivered <= record.last_request_from;
  if (!goes_on || !sent.has_begun()) return {};
  if (drains(record)) {
    const int64_t drain_ms =
        std::max({shards_[record.shard].drain_ms, record.placed_ms, record.frames_ms});
    if (!sent.announced_end()) return {.due_ms = drain_ms, .name = "GOAWAY of a drain"};
    if (!sent.last_stream()) {
      return {.due_ms = drain_ms + drain_grace_ms(), .name = "GOAWAY with its last stream"};
    }
  }
  OwedFrame owed;
  for (const auto& [stream, body] : record.bodies) {
    const int64_t due_ms =
        std::max(body.begun_ms + options_.header_timeout_ms, record.late_from_ms);
    if (body.begun_ms == never || due_ms >= owed.due_ms) continue;
    if (stream > sent.last_stream().value_or(INT32_MAX)) continue;
    owed = {.due_ms = due_ms,
            .name = "RST_STREAM of stream " + std::to_string(stream) + ", whose body is late"};
  }
  return owed;
}

}  // namespace sluice::simulation
