#include "http2_peer.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "pick.hpp"
#include "quota_books.hpp"
#include "server/worker.hpp"
#include "session/http2_session.hpp"

namespace sluice::simulation {
namespace {

using support::Http2Client;
using wire::Http2Error;

constexpr size_t preface_bytes = wire::http2_preface.size();
constexpr size_t head_bytes = http2_frame_head_bytes;
constexpr uint8_t type_data = NGHTTP2_DATA;
constexpr uint8_t type_headers = NGHTTP2_HEADERS;
constexpr uint8_t type_reset = NGHTTP2_RST_STREAM;

// Fewer than the server takes for a flood.
constexpr uint32_t resets_max = 400;
constexpr uint32_t small_window_bytes = 16;
constexpr int64_t clock_slack_ms = 1;  // the server's milliseconds are rounded down

struct FrameHead {
  size_t bytes;  // of the whole frame
  uint8_t type;
  uint8_t flags;
  int32_t stream;
};

FrameHead head_of(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  return {.bytes = head_bytes + (size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | size_t{byte(2)}),
          .type = byte(3),
          .flags = byte(4),
          .stream = static_cast<int32_t>(uint32_t{byte(5)} << 24 | uint32_t{byte(6)} << 16 |
                                         uint32_t{byte(7)} << 8 | uint32_t{byte(8)})};
}

}  // namespace

Http2Peer::Http2Peer(World& world)
    : Peer(world, server::http_listener),
      upgrades_(world.random.chance(0.3)),
      streams_max_(pick<size_t, 3>(world.random, {3, 40, wire::Http2Framing::streams_max})),
      burst_(pick<double, 3>(world.random, {0, 0.5, 0.95})),
      has_small_window_(world.random.chance(0.3)),
      is_silent_(world.random.chance(0.1)),
      keeps_closed_(world.random.chance(0.3)),
      keeps_bodies_(world.time_outs && world.random.chance(0.4)),
      hoards_(world.large_messages && !has_small_window_ && world.random.chance(0.2)),
      requests_(world, client_.link_id()),
      http2_(has_small_window_ ? std::optional(small_window_bytes) : std::nullopt) {
  record().upgrades = upgrades_;
  if (!upgrades_) record().http2_from = preface_bytes;
  if (hoards_) turn_window();
}

int64_t Http2Peer::now_ms() const {
  return base::floor_ms(world_.network->clock().monotonic_ns);
}

void Http2Peer::fail_stream(int32_t id, const std::string& text) {
  fail("stream " + std::to_string(id) + " " + text);
}

// ------------------------------------------------------------------------------------- asking

void Http2Peer::ask() {
  if (phase_ == Phase::fresh && upgrades_) return ask_upgrade();
  if (phase_ == Phase::fresh) {
    phase_ = Phase::open;
    count(Http2Event::prior_knowledge);
  }
  if (phase_ != Phase::open) return;
  do {
    ask_one();
  } while (phase_ == Phase::open && world_.random.chance(burst_));
  flush();
}

void Http2Peer::ask_upgrade() {
  const AskedEntry entry = random_entry(false);
  const bool acquires = !is_forbidden(world_, entry) && world_.random.chance(0.7);
  ++world_.operations;
  const std::string text = "GET " + (acquires ? acquire_target(world_, entry) : "/healthz") +
                           " HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                           "Upgrade: h2c\r\nHTTP2-Settings: AAQAAP__\r\n\r\n";
  trace("asks to upgrade: " + text);
  send(std::as_bytes(std::span(text)), text.size(), SentRequest::Frame::head);
  const uint64_t end = record().asked_bytes;
  record().http2_from = end;
  streams_[1] = {.asked = {.kind = acquires ? Kind::acquire : Kind::health, .key = entry.key},
                 .head_end = end,
                 .end = end,
                 .asked_ms = now_ms()};
  phase_ = Phase::upgrading;
}

void Http2Peer::ask_one() {
  io::Random& random = world_.random;
  const uint64_t dice = random.below(1'000);
  if (dice < 60) return reset_one();
  if (dice < 90) return http2_.ping();
  if (dice < 110 && !hoards_) return turn_window();
  if (dice < 200) return send_parts();
  if (dice < 203) return ask_wrong();
  // The server takes no more streams; and the client begins none.
  if (goodbyes_ > 0 || streams_.size() >= streams_max_) return;
  if (dice < 215 && world_.large_messages && !has_upload()) {
    return open_stream(requests_.draw_upload());
  }
  const bool is_large = hoards_ ? random.chance(0.9) : dice >= 970 && !has_small_window_;
  open_stream(is_large ? requests_.draw_large() : requests_.draw());
}

// Several would hold back each other's bytes by the window of the connection.
bool Http2Peer::has_upload() const {
  return std::ranges::any_of(streams_, [](const auto& one) { return one.second.asked.is_upload; });
}

void Http2Peer::open_stream(Http2Request asked) {
  ++world_.operations;
  const bool is_whole = asked.is_upload || world_.random.chance(keeps_bodies_ ? 0.2 : 0.5);
  http2_.send_in_parts(is_whole ? SIZE_MAX : 1 + world_.random.below(200));
  const int32_t id = http2_.ask(asked.method, asked.target, asked.body, asked.fields);
  trace("asks on stream " + std::to_string(id) + ": " + asked.method + " " + asked.target);
  has_large_ |= asked.is_large;
  streams_[id].asked = std::move(asked);
}

// A frame that ends the connection with GOAWAY.
void Http2Peer::ask_wrong() {
  using support::http2_frame;
  ++world_.operations;
  flush();
  end_with_next_request();
  switch (world_.random.below(3)) {
    case 0:
      http2_.raw(http2_frame(NGHTTP2_DATA, 0, 0, "of no stream"));
      break;
    case 1:
      http2_.raw(http2_frame(NGHTTP2_SETTINGS, 0, 0, "short"));
      break;
    default:
      http2_.raw(http2_frame(NGHTTP2_WINDOW_UPDATE, 0, 0, std::string(4, '\0')));
      break;
  }
  flush();
  phase_ = Phase::broken;
}

void Http2Peer::reset_one() {
  if (streams_.empty() || resets_count_ >= resets_max) return;
  const auto found =
      std::next(streams_.begin(), static_cast<ptrdiff_t>(world_.random.below(streams_.size())));
  const auto& [id, stream] = *found;
  if (stream.head_end == no_offset) return;
  ++world_.operations;
  ++resets_count_;
  trace("resets stream " + std::to_string(id));
  if (!stream.asked.is_decision() || world_.ios.size() > 1) record().has_hidden_stream = true;
  http2_.reset(id);
  record().bodies.erase(id);
  const std::string owner = stream.asked.call ? stream.asked.call->owner : std::string();
  resets_[id] = {.head_end = stream.head_end, .end = no_offset, .owner = owner};
  streams_.erase(found);
}

void Http2Peer::turn_window() {
  reads_nothing_ = !reads_nothing_;
  has_blocked_ = true;
  reads_nothing_ ? http2_.read_nothing() : http2_.read_on();
}

void Http2Peer::send_parts() {
  if (keeps_bodies_) return;
  for (const auto& [id, stream] : streams_) {
    if (stream.asked.body && stream.end == no_offset) http2_.send_part(id);
  }
}

void Http2Peer::prepare_to_end() {
  if (phase_ == Phase::fresh && !upgrades_) phase_ = Phase::open;
  if (reads_nothing_ && !keeps_closed_) turn_window();
  if (phase_ != Phase::open) return;
  send_parts();
  flush();
}

// Whole frames, and heads with their continuations, are to the watch what requests are of HTTP/1.1.
void Http2Peer::flush() {
  if (phase_ != Phase::open || half_closed_) return;
  const std::string text = http2_.output();
  std::string_view rest = text;
  const auto send_front = [&](size_t bytes, SentRequest::Frame frame) {
    send(std::as_bytes(std::span(rest.substr(0, bytes))), bytes, frame);
    rest.remove_prefix(bytes);
  };
  if (!sent_preface_ && !rest.empty()) {
    send_front(preface_bytes, SentRequest::Frame::other);
    sent_preface_ = true;
  }
  while (!rest.empty()) {
    const FrameHead head = head_of(rest);
    size_t bytes = head.bytes;
    uint8_t flags = head.flags;
    while (head.type == type_headers && (flags & NGHTTP2_FLAG_END_HEADERS) == 0) {
      const FrameHead next = head_of(rest.substr(bytes));
      bytes += next.bytes;
      flags |= next.flags;
    }
    send_front(bytes, head.type == type_headers ? SentRequest::Frame::head
                      : head.type == type_data  ? SentRequest::Frame::data
                                                : SentRequest::Frame::other);
    note_sent(head.type, flags, head.stream);
  }
}

void Http2Peer::note_sent(uint8_t type, uint8_t flags, int32_t id) {
  const uint64_t end = record().asked_bytes;
  if (type == type_reset) {
    if (const auto reset = resets_.find(id); reset != resets_.end()) reset->second.end = end;
    return;
  }
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  if (type == type_headers) {
    stream.head_end = end;
    stream.asked_ms = now_ms();
    if (stream.asked.body) record().bodies[id] = {.head_end = end};
  }
  const bool is_part = type == type_headers || type == type_data;
  if (!is_part || (flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
  stream.end = end;
  if (stream.asked.body) record().bodies[id].end = end;
}

// ------------------------------------------------------------------------------------ answers

void Http2Peer::take_answers() {
  const bool is_http1 = record().refused || phase_ == Phase::upgrading;
  if (is_http1 && !take_http1()) return;
  take_frames();
  if (!over()) check_streams();
  if (!over()) flush();
}

// The answer to an upgrade, or the refusal of the connection. Returns whether frames follow.
bool Http2Peer::take_http1() {
  const std::string text(reinterpret_cast<const char*>(inbox_.data()), inbox_.size());
  const size_t head_end = text.find("\r\n\r\n");
  if (head_end == std::string::npos) return false;
  const size_t length = text.find("Content-Length: ");
  const size_t body = length < head_end ? number_in(text.substr(length, 30)) : 0;
  const size_t bytes = head_end + 4 + body;
  if (inbox_.size() < bytes) return false;
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<ptrdiff_t>(bytes));
  const uint64_t status = number_in(text.substr(8, 5));
  trace("got " + text.substr(0, 40));
  if (status == 101 && !record().refused) {
    http2_.upgrade();
    phase_ = Phase::open;
    count(Http2Event::upgraded);
    flush();
    return true;
  }
  const bool closes = text.find("\r\nConnection: close\r\n") < head_end;
  record().saw_last_answer |= closes;
  phase_ = Phase::http1;
  streams_.clear();
  if (status != 503 || !closes) {
    fail("was refused with " + text);
  } else if (!record().refused && !is_draining()) {
    fail("was not upgraded: " + text);
  }
  return false;
}

void Http2Peer::take_frames() {
  const std::string text(reinterpret_cast<const char*>(inbox_.data()), inbox_.size());
  std::string_view rest = text;
  while (rest.size() >= head_bytes && !over()) {
    const FrameHead head = head_of(rest);
    if (rest.size() < head.bytes) break;
    trace("got a frame of type " + std::to_string(head.type) + " on stream " +
          std::to_string(head.stream));
    const bool is_taken = http2_.receive(rest.substr(0, head.bytes));
    if (!is_taken || http2_.got_invalid()) {
      return fail("got a frame that the standard forbids: type " + std::to_string(head.type) +
                  " on stream " + std::to_string(head.stream));
    }
    // Behind the first GOAWAY nghttp2 may read no more.
    if (head.type == NGHTTP2_GOAWAY) on_goodbye(rest.substr(head_bytes));
    rest.remove_prefix(head.bytes);
  }
  inbox_.erase(inbox_.begin(), inbox_.end() - static_cast<ptrdiff_t>(rest.size()));
}

void Http2Peer::on_goodbye(std::string_view payload) {
  const auto byte = [&](size_t at) { return uint32_t{static_cast<uint8_t>(payload[at])}; };
  const auto word = [&](size_t at) {
    return byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
  };
  ++goodbyes_;
  const auto last = static_cast<int32_t>(word(0));
  const uint32_t error = word(4);
  trace("got GOAWAY " + std::to_string(error) + " behind stream " + std::to_string(last));
  if (last == INT32_MAX && error == NGHTTP2_NO_ERROR) {
    count(Http2Event::drain_goaway);
    return take_go_away();
  }
  last_stream_ = last;
  if (error == NGHTTP2_NO_ERROR) return;
  record().saw_last_answer = true;
  if (phase_ != Phase::broken) fail("got GOAWAY with error " + std::to_string(error));
}

void Http2Peer::check_streams() {
  for (auto next = streams_.begin(); next != streams_.end() && !over();) {
    const auto one = next++;
    if (check_stream(one->first, one->second)) streams_.erase(one);
  }
}

// Returns whether the stream is over.
bool Http2Peer::check_stream(int32_t id, Stream& stream) {
  const Http2Client::Answer& answer = http2_.answer(id);
  if (answer.ended && !stream.is_answered) {
    on_answer(id, stream, answer);
    stream.is_answered = true;
  }
  if (answer.reset) {
    on_reset(id, stream, *answer.reset);
    return true;
  }
  if (stream.is_answered) return stream.end <= record().delivered;
  const bool was_unserved = goodbyes_ > 0 && (stream.head_end == no_offset || id > last_stream_);
  if (!was_unserved) return false;
  const bool was_queued = stream.asked.call && requests_.quotas()->was_queued(*stream.asked.call);
  if (is_decided(id) || was_queued) {
    fail_stream(id, "was decided, and GOAWAY says that it was not served");
  }
  return true;
}

// Whether the server lacked a part of the body when its time was over.
bool Http2Peer::has_late_body(int32_t id, const Stream& stream) const {
  if (!stream.asked.body) return false;
  const auto whole = record().whole_ms.find(id);
  const int64_t until_ms = whole == record().whole_ms.end() ? now_ms() : whole->second;
  return until_ms - stream.asked_ms + clock_slack_ms >= world_.header_timeout_ms;
}

void Http2Peer::on_reset(int32_t id, const Stream& stream, uint32_t error) {
  trace("got RST_STREAM " + std::to_string(error) + " of stream " + std::to_string(id));
  const int64_t age_ms = now_ms() - stream.asked_ms + clock_slack_ms;
  const bool is_late_body = has_late_body(id, stream);
  const session::Http2Answer::Pace pace = stream.asked.target == "/debug"
                                              ? session::Http2Answer::walk_pace
                                              : session::Http2Answer::pace;
  const bool reads_little = has_blocked_ || has_small_window_;
  const bool is_late = is_late_body || (reads_little && age_ms >= pace.ms);
  // The client need not send what is left of a body, once it has the whole answer.
  switch (error) {
    case NGHTTP2_NO_ERROR:
      if (!stream.is_answered) return fail_stream(id, "was reset without an answer");
      if (!stream.asked.is_upload && !is_late_body)
        return fail_stream(id, "was reset for no reason");
      if (is_late_body) count(Http2Event::late_body);
      break;
    case NGHTTP2_CANCEL:
      if (stream.is_answered) return fail_stream(id, "was cancelled behind its answer");
      if (!is_late) return fail_stream(id, "was cancelled too early");
      count(is_late_body ? Http2Event::late_body : Http2Event::closed_window);
      break;
    case NGHTTP2_REFUSED_STREAM:
      if (is_decided(id) || !(id > last_stream_ || resets_count_ > 0)) {
        return fail_stream(id, "was refused for no reason");
      }
      count(Http2Event::refused_stream);
      break;
    default:
      return fail_stream(id, "was reset with error " + std::to_string(error));
  }
  if (!stream.is_answered) resets_[id] = {.head_end = stream.head_end, .end = 0, .owner = {}};
}

void Http2Peer::on_answer(int32_t id, const Stream& stream, const Http2Client::Answer& answer) {
  trace("got " + std::to_string(answer.status) + " on stream " + std::to_string(id));
  if (answer.heads != 1) return fail_stream(id, "was not answered once");
  const Http2Request& asked = stream.asked;
  if (answer.interim != 0 && !(answer.interim == 100 && asked.continues)) {
    return fail_stream(id, "got `100 Continue` for no reason");
  }
  const RestAnswer response{.status = answer.status, .headers = answer.fields, .body = answer.body};
  if (asked.call) return on_quota(id, *asked.call, response);
  if (asked.is_decision()) return on_decided(id, stream, response);
  if (is_decided(id)) return fail_stream(id, "was decided");
  const bool is_known =
      asked.kind == Kind::shown && (response.status == 200 || response.status == 404);
  const bool is_unready = asked.kind == Kind::health && is_draining() && response.status == 503;
  if (asked.kind == Kind::health && is_behind_drain(stream) && !is_unready) {
    return fail_stream(id, "was answered as healthy by a shard that drains");
  }
  const bool is_query = asked.kind == Kind::query || asked.kind == Kind::shown;
  const bool is_busy =
      is_query && response.status == 503 && response.body.starts_with("too many shard queries");
  if (response.status != asked.status && !is_unready && !is_known && !is_busy) {
    fail_stream(id, "got status " + std::to_string(response.status) + " instead of " +
                        std::to_string(asked.status));
  }
  if (response.status == 413) count(Http2Event::upload_refused);
  if (response.status == 431) count(Http2Event::head_refused);
}

void Http2Peer::on_quota(int32_t id, const QuotaRestCall& call, const RestAnswer& answer) {
  const QuotaRestCalls::State state{.drains = is_draining(),
                                    .any_drains = drains_anywhere(),
                                    .has_others = streams_.size() > 1 || resets_count_ > 0};
  const std::string wrong = requests_.quotas()->take(call, answer.status, answer.body, state);
  if (!wrong.empty()) return fail_stream(id, wrong);
  count(Http2Event::quota_call);
  if (requests_.quotas()->was_queued(call)) count(Http2Event::quota_waited);
}

void Http2Peer::on_decided(int32_t id, const Stream& stream, const RestAnswer& answer) {
  const auto decided = find_decided(id);
  if (decided == decisions().end()) {
    // While draining, the shard decides no acquire of its connections any more.
    const bool is_refusal =
        is_draining() && stream.asked.kind == Kind::acquire && answer.status == 503;
    if (!is_refusal) fail_stream(id, "got an answer without a decision");
    return;
  }
  if (is_behind_drain(stream) && stream.asked.kind == Kind::acquire) {
    return fail_stream(id, "got a decision of a shard that drains");
  }
  const DecidedEntry entry = decided->entries[0];
  if (entry.key != stream.asked.key || entry.op != stream.asked.op()) {
    return fail_stream(id, "got the answer to another request");
  }
  const std::string wrong = wrong_in(world_.oracle, entry, answer, stream.asked.json);
  if (!wrong.empty()) return fail_stream(id, wrong);
  decisions().erase(decided);
}

DecidedRequests::iterator Http2Peer::find_decided(int32_t id) const {
  return std::ranges::find(decisions(), static_cast<uint64_t>(id), &DecidedRequest::id);
}

// Its entry may still be on its way to the shard that decides it.
bool Http2Peer::is_decided(int32_t id) const {
  const auto decided = find_decided(id);
  return decided != decisions().end() && decided->entries[0].verdict != api::Verdict::none;
}

bool Http2Peer::awaits_decision(int32_t id) const {
  const auto decided = find_decided(id);
  if (decided == decisions().end()) return false;
  const DecidedEntry& entry = decided->entries[0];
  return entry.verdict == api::Verdict::queued && entry.outcome == api::Verdict::none;
}

bool Http2Peer::is_waiting(int32_t id, const Stream& stream) const {
  if (!stream.asked.call) return awaits_decision(id);
  return requests_.quotas()->waits(*stream.asked.call);
}

// -------------------------------------------------------------------------------- what is open

bool Http2Peer::awaits_answer() const {
  if (phase_ == Phase::fresh || phase_ == Phase::http1) return false;
  return !streams_.empty() || is_silent_;
}

bool Http2Peer::awaits_timeout() const {
  const bool is_patient =
      is_silent_ || (keeps_closed_ && reads_nothing_) || (keeps_bodies_ && !streams_.empty());
  return !over() && settling_ && is_patient && phase_ == Phase::open && !half_closed_;
}

// Streams, and with them their places in the connection's bytes, are in ascending order.
uint64_t Http2Peer::open_end() const {
  uint64_t end = streams_.empty() ? no_offset : streams_.begin()->second.head_end;
  for (const auto& [id, reset] : resets_) {
    if (reset.end > record().delivered) end = std::min(end, reset.head_end);
  }
  return end;
}

// A quota call is decided when its body is here.
uint64_t Http2Peer::undecided_end() const {
  uint64_t end = no_offset;
  for (const auto& [id, stream] : streams_) {
    if (stream.is_answered || is_waiting(id, stream)) continue;
    end = std::min(end, stream.asked.call ? stream.end : stream.head_end);
  }
  for (const auto& [id, reset] : resets_) {
    if (reset.end > record().delivered) end = std::min(end, reset.head_end);
  }
  return end;
}

// A stream that was reset leaves its queue.
void Http2Peer::check_turn() {
  const ConnectionRecord& now = record();
  std::erase_if(streams_, [&](const auto& one) {
    return one.second.is_answered && one.second.end <= now.delivered;
  });
  if (!now.is_open() || now.caught_up_ms == never || now.is_sending) return;
  for (auto next = resets_.begin(); next != resets_.end();) {
    const auto one = next++;
    const auto& [id, reset] = *one;
    if (reset.end > now.delivered) continue;
    const bool waits = world_.oracle.waits(client_.link_id(), static_cast<uint64_t>(id)) ||
                       (world_.books != nullptr && world_.books->waits(reset.owner));
    if (world_.ios.size() > 1) {
      if (waits || !is_decided(id)) continue;
    } else if (waits) {
      return fail_stream(id, "was reset, and waits");
    }
    if (awaits_decision(id)) count(Http2Event::waiter_reset);
    if (const auto decided = find_decided(id); decided != decisions().end()) {
      decisions().erase(decided);
    }
    resets_.erase(one);
  }
}

// ------------------------------------------------------------------------------------ its end

void Http2Peer::check_graceful_end() {
  const ConnectionRecord& ended = record();
  if (ended.refused || phase_ == Phase::http1) return;
  check_farewell();
  for (const auto& [id, stream] : streams_) {
    if (over()) return;
    if (stream.is_answered || stream.head_end > ended.delivered_at_end) continue;
    if (!may_lack_answer(id, stream)) return fail_stream(id, "was not answered before the end");
  }
}

// A server that ends a connection by itself says so first.
void Http2Peer::check_farewell() {
  const bool spoke_http2 = record().delivered_at_end >= record().http2_from;
  if (!spoke_http2 || was_ended_for(why::peer_left)) return;
  if (last_stream_ == INT32_MAX) return fail("got no GOAWAY with its last stream");
  const bool has_drained = record().reasons == why::drain_grace;
  if (has_drained && !got_go_away()) fail("got no GOAWAY of a drain");
  if (was_ended_for(why::drain_grace) && got_go_away()) count(Http2Event::drained);
}

// Broken frames and time-outs of frames end all streams, and a client that leaves what its windows
// keep open, or what waits.
bool Http2Peer::may_lack_answer(int32_t id, const Stream& stream) const {
  if (was_ended_for(why::last_request | why::header_timeout)) return true;
  if (id > last_stream_) return !is_decided(id);
  if (!was_ended_for(why::peer_left)) return false;
  // After an upgrade, bodies follow the client's preface.
  const uint64_t preface_end = record().http2_from + preface_bytes;
  if (upgrades_ && record().delivered_at_end < preface_end) return true;
  // Its outcome may have come when nobody waited for it any more.
  const auto decided = find_decided(id);
  const auto& call = stream.asked.call;
  const bool has_waited =
      call ? requests_.quotas()->was_queued(*call)
           : decided != decisions().end() && decided->entries[0].verdict == api::Verdict::queued;
  const bool reads_body = call || (stream.asked.is_upload && !stream.asked.is_decision());
  const bool awaits_body = reads_body && stream.end > record().delivered_at_end;
  return awaits_body || has_blocked_ || has_large_ || has_small_window_ || has_waited;
}

}  // namespace sluice::simulation
