// The one seam to the kernel. Three implementations: uring/ (default), epoll/ (where io_uring is
// blocked), sim/ (in memory, seeded, for tests).
// Flow:   kernel -> Io::poll() -> events -> net/; net/ -> start, stop, send, close -> kernel.
//         Outward: connect() -> `connected`, or `failed` with the reason.
//         Between workers: release() -> `released` -> another Io's adopt().
// Units:  bytes; nanoseconds. A failure's `result` is a negative errno.
// Lives:  an event's bytes belong to the reader (writable, 8-byte aligned at the start) until the
//         next poll(). A SocketId is valid from `accepted`, connect() or adopt() until `closed` or
//         `released`.
//         One thread only, except wake().
// Source: liburing 2.3; docs/architecture.md, "The seam to the kernel".
#pragma once

#include <tl/expected.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/time.hpp"
#include "io/peer_address.hpp"

namespace sluice::io {

inline constexpr uint32_t generation_mask = 0xFF'FFFF;

// A socket's slot, and how often the slot was used before: a late completion matches no new socket.
struct SocketId {
  uint32_t index = 0;
  uint32_t generation = 0;  // within generation_mask
  bool operator==(const SocketId&) const = default;
};

using ListenerId = uint32_t;

// Why connect() has not begun, besides what socket(2) returns: every slot is in use.
inline constexpr int32_t no_free_slot = -EUSERS;

// The longest that a poll() waits, whatever its argument.
inline constexpr int64_t poll_wait_ns_max = base::s_per_hour * base::ns_per_s;

enum class EventKind : uint8_t {
  accepted,         // a new socket, nothing is received before receive_start()
  connected,        // after connect(): as `accepted` from here on
  accept_failed,    // out of descriptors or memory, or forbidden; it is tried again, later
  received,         // `bytes`, never empty
  end_of_stream,    // behind the last byte: the peer sends no more (half-close); reported once
  hung_up,          // while stopped: the peer has ended; unread bytes may lie before its end
  failed,           // reset, timed out or never connected; once; only close() makes sense now
  sent,             // the whole send() left (result: bytes), or failed (result: -errno)
  closed,           // after close(): the kernel holds nothing of the socket; its slot is free
  released,         // after release() (result: the descriptor, the caller's now); its slot is free
  listener_closed,  // after accept_finish(): every queued connection was reported before
  woken,            // another thread called wake()
  refused,          // the kernel refuses to wait or to take operations; it is tried again, later
};

struct Event {
  EventKind kind = EventKind::woken;
  ListenerId listener = 0;     // accepted, accept_failed, listener_closed
  SocketId socket;             // all but accept_failed, listener_closed, woken and refused
  int32_t result = 0;          // sent, failed, accept_failed, released, refused
  uint32_t untaken_bytes = 0;  // sent, failed: its last bytes, those that the kernel never took
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

  // Begins a connection to `peer`, with the options of accepted ones: `connected` follows, then
  // nothing is received before receive_start(); or `failed`, with the reason (refused, unreachable,
  // timed out). Until `connected` only close() may follow. The caller bounds how long it takes: he
  // closes. An error is a negative errno of socket(2), or no_free_slot; then there is no socket.
  virtual tl::expected<SocketId, int32_t> connect(const PeerAddress& peer) noexcept = 0;

  // Bytes are delivered from now on. Idempotent.
  virtual void receive_start(SocketId socket) noexcept = 0;

  // Stops delivering bytes; those that the kernel had already received still come (at most the
  // receive buffers of one worker, twice). A hang-up is reported even while stopped, once; the
  // bytes before it and end_of_stream still come after the next receive_start(). Idempotent.
  virtual void receive_stop(SocketId socket) noexcept = 0;

  // Takes at once what has arrived at a stopped socket, at most `bytes_max` and
  // limits::taken_bytes_max: for a reader that is behind, and takes from one socket after the other
  // when it gets to it. The bytes are the reader's until the next call or poll(). Empty: nothing
  // has arrived, or only the end, which is reported after receive_start(). Nothing: bytes of the
  // stopped receive may still come.
  virtual std::optional<std::span<std::byte>> receive_now(SocketId socket,
                                                          size_t bytes_max) noexcept = 0;

  // From now on a poll() delivers at most one buffer of each socket: for a reader that is behind,
  // who would have to keep the bytes. Receives in flight may deliver more until they end.
  void receive_sparingly(bool sparingly) noexcept { receives_sparingly_ = sparingly; }

  // Sends all of `bytes`, which stay untouched until `sent`. One send in flight per socket.
  virtual void send(SocketId socket, std::span<const std::byte> bytes) noexcept = 0;

  // No more will be sent: the peer sees the end of the stream. Not while a send is in flight.
  virtual void send_finish(SocketId socket) noexcept = 0;

  // Closes the socket, whatever is in flight: `closed` follows when the kernel no longer uses it,
  // after a last `sent` (failed) if a send was in flight. No bytes are delivered any more.
  virtual void close(SocketId socket) noexcept = 0;

  // Detaches the socket without closing it, for another worker to adopt(). Receiving stops; bytes
  // that the kernel had already received still come (bounded as with receive_stop()), then
  // `released`. An end, a hang-up or a failure is no longer reported here: the adopter sees it. Not
  // while a send is in flight, nor after send_finish(). Only close() may follow, and wins until a
  // poll() has reported `released`. No poll() reports both `released` and bytes of the socket: a
  // close() because of the last bytes is in time, and `closed` follows instead.
  virtual void release(SocketId socket) noexcept = 0;

  // Takes over a connection that another Io has released: as after `accepted`, nothing is received
  // before receive_start(). Without a free slot it returns nothing, and the caller keeps the
  // descriptor.
  virtual std::optional<SocketId> adopt(int fd) noexcept = 0;

  // Closes a released descriptor that no Io adopts.
  virtual void discard(int fd) noexcept = 0;

  // The peer's address, for people to read: "192.0.2.7:51234"; empty when the peer has gone. Asks
  // the kernel, and allocates. Not before `connected`, nor after close() or release().
  virtual std::string peer(SocketId socket) noexcept = 0;

  // Submits what the calls above have queued, waits until there is an event or `wait_ns` have
  // passed (0: does not wait), and fills `events`; returns how many. Reads the clock.
  virtual size_t poll(std::span<Event> events, int64_t wait_ns) noexcept = 0;

  // The time of the last poll().
  virtual base::Now now() const noexcept = 0;

  // Makes a poll() that waits, or the next one, return with `woken`. From any thread.
  virtual void wake() noexcept = 0;

  // Whether the next poll() would only wait: no call above has queued anything for it, and no event
  // shows without a system call (epoll shows none).
  virtual bool is_quiet() const noexcept = 0;

  // For a busy wait: pauses the processor for some 100 ns, without a system call. Returns the
  // present time, as monotonic_ns of now(), which it does not change.
  virtual int64_t pause() noexcept = 0;

  virtual const Statistics& statistics() const noexcept = 0;

 protected:
  bool receives_sparingly() const noexcept { return receives_sparingly_; }

 private:
  bool receives_sparingly_ = false;
};

}  // namespace sluice::io
