// The one seam to the kernel. Three implementations: uring/ (default), epoll/ (where io_uring is
// blocked), sim/ (in memory, seeded, for tests).
// Flow:   kernel -> Io::poll() -> events -> net/; net/ -> start, stop, send, close -> kernel.
//         Between cores: release() -> `released` -> another Io's adopt().
// Units:  bytes; nanoseconds. A failure's `result` is a negative errno.
// Lives:  an event's bytes are the reader's (writable, 8-byte aligned at the start) until the next
//         poll(). A SocketId is valid from `accepted` or adopt() until `closed` or `released`. One
//         core only, but wake().
// Source: liburing 2.3; docs/architecture.md, "The seam to the kernel".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace sluice::io {

// A socket's slot, and how often the slot was used before: late completions find a stranger.
struct SocketId {
  uint32_t index = 0;
  uint32_t generation = 0;  // 24 bits
  bool operator==(const SocketId&) const = default;
};

using ListenerId = uint32_t;

// The longest that a poll() waits, however long it may.
inline constexpr int64_t poll_wait_ns_max = base::s_per_hour * base::ns_per_s;

enum class EventKind : uint8_t {
  accepted,         // a new socket, nothing is received before receive_start()
  accept_failed,    // out of descriptors or memory; accepting goes on by itself, later
  received,         // `bytes`, never empty
  end_of_stream,    // behind the last byte: the peer sends no more (half-close); told once
  hung_up,          // while stopped: the peer has ended; unread bytes may lie before its end
  failed,           // reset or timed out; told once; only close() makes sense now
  sent,             // the whole send() left (result: bytes), or failed (result: -errno)
  closed,           // after close(): the kernel holds nothing of the socket; its slot is free
  released,         // after release() (result: the descriptor, the caller's now); its slot is free
  listener_closed,  // after accept_finish(): every queued connection was told before
  woken,            // another thread called wake()
};

struct Event {
  EventKind kind = EventKind::woken;
  ListenerId listener = 0;     // accepted, accept_failed, listener_closed
  SocketId socket;             // all but accept_failed, listener_closed and woken
  int32_t result = 0;          // sent, failed, accept_failed, released
  uint32_t untaken_bytes = 0;  // sent, failed: of its end, that certainly never were the kernel's
  std::span<std::byte> bytes;  // received
};

struct Statistics {
  uint64_t enters = 0;             // system calls that waited or submitted
  uint64_t rearms = 0;             // multishot operations that ended by themselves
  uint64_t buffers_exhausted = 0;  // receives that found no buffer
};

class Io {
 public:
  virtual ~Io() = default;
  Io() = default;
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;

  virtual std::string_view name() const noexcept = 0;  // "uring", "epoll", "sim"

  // Connections of `listener` are accepted from now on, as `accepted` events. When all slots are
  // in use, accepting pauses by itself until one is free; the kernel's queue holds the rest.
  virtual void accept_start(ListenerId listener) noexcept = 0;

  // Accepts what is queued already, then closes the listener: `listener_closed`.
  virtual void accept_finish(ListenerId listener) noexcept = 0;

  // Bytes are delivered from now on. Idempotent.
  virtual void receive_start(SocketId socket) noexcept = 0;

  // Stops delivering bytes: what the kernel had already received by then still comes (at most
  // the receive buffers of one core, twice). A hang-up is told even while stopped, once; the bytes
  // before it and end_of_stream still come after the next receive_start(). Idempotent.
  virtual void receive_stop(SocketId socket) noexcept = 0;

  // Sends all of `bytes`, which stay untouched until `sent`. One send in flight per socket.
  virtual void send(SocketId socket, std::span<const std::byte> bytes) noexcept = 0;

  // No more will be sent: the peer sees the end of the stream. Not while a send is in flight.
  virtual void send_finish(SocketId socket) noexcept = 0;

  // Gives the socket back, whatever is in flight: `closed` follows when the kernel has let go of
  // it, after a last `sent` (failed) if a send was in flight. No bytes are delivered any more.
  virtual void close(SocketId socket) noexcept = 0;

  // Gives the socket up without closing it, for another core to adopt(). Receiving stops; what the
  // kernel had already received by then still comes (bounded as with receive_stop()), then
  // `released`. An end, a hang-up or a failure is not told any more: the adopter sees it. Not while
  // a send is in flight, nor after send_finish(); only close() may follow. It wins until a poll()
  // has told `released`, which is never one that tells bytes of the socket: who closes because of
  // the last bytes is in time, and is told `closed` instead.
  virtual void release(SocketId socket) noexcept = 0;

  // Takes over a connection that another Io has released: as if accepted here, nothing is received
  // before receive_start(). Without a free slot nothing: the descriptor stays the caller's then.
  virtual std::optional<SocketId> adopt(int fd) noexcept = 0;

  // Closes a descriptor that was released and that nobody adopts.
  virtual void discard(int fd) noexcept = 0;

  // Who is at the other end, for people: "192.0.2.7:51234"; empty when it has gone. Asks the
  // kernel, and allocates. Not after close() or release().
  virtual std::string peer(SocketId socket) noexcept = 0;

  // Submits what the calls above have queued, waits until there is an event or `wait_ns` have
  // passed (0: does not wait), and fills `events`; returns how many. Reads the clock.
  virtual size_t poll(std::span<Event> events, int64_t wait_ns) noexcept = 0;

  // The time of the last poll().
  virtual base::Now now() const noexcept = 0;

  // Makes a poll() that waits, or the next one, return with `woken`. From any thread.
  virtual void wake() noexcept = 0;

  virtual const Statistics& statistics() const noexcept = 0;
};

}  // namespace sluice::io
