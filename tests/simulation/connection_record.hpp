// What is known of one connection: what its client has sent, and what the server has received of it
// and done with it.
// Flow:   Peer and WatchedIo write it; ConnectionWatch predicts the end from it; the peer compares
//         that end with its answers.
// Units:  offsets in the client's stream, bytes; milliseconds of the server's clock.
// Lives:  until the run's end, so that a client can look back.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "io/io.hpp"
#include "sent_frames.hpp"

namespace sluice::simulation {

// Why the server may end its side of a connection: bits, since several may hold at once.
namespace why {
inline constexpr uint32_t peer_left = 1;       // the client has ended its side
inline constexpr uint32_t last_request = 2;    // the client's request, or broken bytes, end it
inline constexpr uint32_t refused = 4;         // there are too many connections
inline constexpr uint32_t header_timeout = 8;  // Hello, a request or a frame is not whole in time
inline constexpr uint32_t idle_timeout = 16;   // HTTP without a request
inline constexpr uint32_t drain_answer = 32;   // the server drains: behind an answer, or no Hello
inline constexpr uint32_t drain_grace = 64;    // the server drains, and the client asks nothing
}  // namespace why
std::string reasons_text(uint32_t reasons);

inline constexpr uint64_t no_offset = UINT64_MAX;
inline constexpr uint64_t http2_frame_head_bytes = 9;
inline constexpr int64_t never = -1;

struct SentRequest {
  // Of HTTP/2, where each frame is one.
  enum class Frame : uint8_t { other, head, data };

  uint64_t head_end;  // the server may answer when it has so much
  uint64_t end;
  Frame frame = Frame::other;
};

// Of a request over HTTP/2.
struct SentBody {
  uint64_t head_end;
  uint64_t end = no_offset;  // until it is sent
  int64_t begun_ms = never;  // when the server had its head
};

struct ConnectionRecord {
  enum class Side : uint8_t {
    waits,     // for accept, or for another shard to adopt it
    accepted,  // and not placed yet
    placed,    // its shard has a session for it
    leaving,   // released, for another shard
    finished,  // the server has ended its side
    closing,
    gone
  };

  bool has_part() const { return delivered > request_begin; }
  // A frame of DATA has arrived in part, and its head whole.
  bool is_in_body() const {
    return has_part() && not_whole.front().frame == SentRequest::Frame::data &&
           delivered >= request_begin + http2_frame_head_bytes;
  }
  bool is_open() const { return side == Side::placed; }
  bool was_ended() const { return side >= Side::finished; }
  bool is_http2() const { return delivered >= http2_from; }

  // The client's.
  io::ListenerId listener = 0;
  std::deque<SentRequest> not_whole;       // requests that have not arrived whole
  uint64_t asked_bytes = 0;                // of all requests so far
  uint64_t last_request_from = no_offset;  // behind this offset it has sent what ends the stream
  uint64_t open_end = no_offset;           // of the first request without its whole answer
  uint64_t undecided_end = no_offset;      // likewise, but for those that wait
  bool has_waiter = false;                 // its first open request waits
  bool is_known_to_wait = false;           // likewise, and its session knows
  uint64_t http2_from = no_offset;         // behind this offset it speaks HTTP/2
  bool upgrades = false;                   // by a request of HTTP/1.1
  bool has_hidden_stream = false;  // a shard may still decide a stream that the client has reset
  std::map<int32_t, SentBody> bodies;   // by stream; without those that the client has reset
  std::map<int32_t, int64_t> whole_ms;  // by stream: when the server had all of a body
  uint32_t wanted_shard = UINT32_MAX;
  bool was_welcomed = false;
  bool saw_last_answer = false;

  // The server's.
  Side side = Side::waits;
  io::SocketId socket{};    // at its shard
  uint32_t shard = 0;       // that has it
  uint32_t counted_at = 0;  // of which it is a connection, also on its way there
  bool counts = false;
  bool refused = false;
  bool was_open_at_drain = false;      // its client is to get GoAway
  bool lacked_hello_at_drain = false;  // native: its client is to be refused
  // What arrives behind this offset is answered by a shard that drains.
  uint64_t drains_from = no_offset;
  bool said_close = false;    // HTTP: an answer that was sent has `Connection: close`
  std::string sent_end;       // HTTP: the last bytes that were sent
  SentFrames sent_frames;     // HTTP/2
  int64_t http2_ms = never;   // when its client began to speak it
  int64_t frames_ms = never;  // when the server did
  int64_t stream_ms = never;  // when a stream of it was last known to be open
  uint64_t delivered = 0;
  uint64_t request_begin = 0;  // behind the last whole request
  uint64_t requests = 0;       // whole ones
  int64_t placed_ms = never;
  int64_t delivered_ms = never;
  int64_t caught_up_ms = never;  // since when its session waits for no turn and no other shard
  // HTTP/2: since when its session may be held, and until when its client has that time again.
  int64_t held_since_ms = never;
  int64_t late_from_ms = 0;
  int64_t begun_ms = never;    // when the first byte behind request_begin arrived
  int64_t sent_ms = never;     // the last send: when it began ...
  int64_t written_ms = never;  // ... and when its first byte was written at the earliest ...
  int64_t taken_ms = never;    // ... and when the kernel had taken the last one of all
  bool is_sending = false;
  bool peer_ended = false;
  bool stream_ended = false;
  bool failed = false;

  // Its end.
  uint32_t reasons = 0;           // for which the server may have ended its side
  int64_t may_end_ms = never;     // since when, while a send hides it
  uint64_t delivered_at_end = 0;  // what arrived later was dropped
  int64_t finished_ms = never;
  bool was_cut_off = false;  // closed with answers unsent
  bool was_due = false;      // at the end of the last turn already
};

}  // namespace sluice::simulation
