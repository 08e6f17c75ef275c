// The sockets of one worker, with their events that are not reported yet; shared by every kernel
// back end, so that the order of a socket's last events is the same in all.
// Flow:   back end -> note_*() -> report() -> events of poll().
// Shape:  a slot's events wait in the slot until the caller's array has room for them.
// Errors: open() must not be called when full().
// Lives:  a slot is free again once its `closed` or `released` was reported; its next use has
//         another generation.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "io/event_sink.hpp"
#include "io/io.hpp"
#include "io/slot_queue.hpp"

namespace sluice::io {

// The base of the back ends' slots.
struct SocketSlot {
  int fd = -1;
  uint32_t generation = 0;
  bool open = false;           // from `accepted`, connect() or adopt() until `closed` or `released`
  bool connecting = false;     // from connect() until the connection stands, which may be never
  bool closing = false;        // close() was called
  bool releasing = false;      // release() was called, and not close()
  bool sending = false;        // from send() until `sent`
  bool send_finished = false;  // our side of the stream has ended
  bool end_reported = false;
  bool hang_up_unreported = false;
  bool hang_up_reported = false;
  bool failure_reported = false;
  std::span<const std::byte> unsent;
  int32_t send_bytes = 0;

  // Noted, but not reported yet.
  bool connected = false;
  bool sent = false;
  bool end = false;
  bool failed = false;
  bool closed = false;
  bool released = false;
  int32_t send_result = 0;
  uint32_t untaken_bytes = 0;  // of a failed send
  int32_t failure = 0;         // negative errno; also of a failed send
  SlotLink unreported;

  bool leaving() const noexcept { return closing || releasing; }
};

template <typename Slot>
class SocketTable {
 public:
  explicit SocketTable(uint32_t capacity)
      : slots_(capacity), unreported_(std::span<Slot>(slots_)), next_free_(capacity) {
    for (uint32_t index = 0; index < capacity; ++index) next_free_[index] = index + 1;
  }

  uint32_t capacity() const noexcept { return static_cast<uint32_t>(slots_.size()); }
  bool full() const noexcept { return free_ == capacity(); }
  bool all_reported() const noexcept { return unreported_.empty(); }
  std::span<Slot> slots() noexcept { return slots_; }
  Slot& operator[](uint32_t index) noexcept { return slots_[index]; }

  SocketId id_of(uint32_t index) const noexcept { return {index, slots_[index].generation}; }

  // A slot the caller of Io may still name: anything else is its bug.
  Slot& usable(SocketId socket) noexcept {
    Slot& slot = closable(socket);
    ASSERT(!slot.releasing);
    ASSERT(!slot.connecting);
    return slot;
  }

  Slot& closable(SocketId socket) noexcept {
    ASSERT(socket.index < capacity());
    Slot& slot = slots_[socket.index];
    ASSERT(slot.open);
    ASSERT(slot.generation == socket.generation);
    ASSERT(!slot.closing);
    return slot;
  }

  SocketId open(int fd) noexcept {
    ASSERT(!full());
    const uint32_t index = free_;
    free_ = next_free_[index];
    Slot& slot = slots_[index];
    ASSERT(!slot.open);
    const uint32_t generation = (slot.generation + 1) & generation_mask;
    slot = Slot{};
    slot.fd = fd;
    slot.generation = generation;
    slot.open = true;
    return id_of(index);
  }

  SocketId open_connecting(int fd) noexcept {
    const SocketId socket = open(fd);
    slots_[socket.index].connecting = true;
    return socket;
  }

  // The kernel reports a reset once: if the other Io got that report, this one finds only an end. A
  // missing peer shows the difference.
  std::optional<SocketId> adopt(int fd) noexcept {
    ASSERT(fd >= 0);
    if (full()) return {};
    const SocketId socket = open(fd);
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
      slots_[socket.index].failure = -ECONNRESET;
    }
    return socket;
  }

  void begin_send(Slot& slot, std::span<const std::byte> bytes) noexcept {
    ASSERT(!slot.sending);
    ASSERT(!slot.send_finished);
    ASSERT(!bytes.empty());
    ASSERT(bytes.size() <= INT32_MAX);
    slot.sending = true;
    slot.unsent = bytes;
    slot.send_bytes = static_cast<int32_t>(bytes.size());
    slot.untaken_bytes = 0;
  }

  void note_connected(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    ASSERT(slot.connecting);
    ASSERT(!slot.leaving());
    slot.connecting = false;
    slot.connected = true;
    unreported_.push(index);
  }

  void note_sent(uint32_t index) noexcept { note_send_result(index, slots_[index].send_bytes); }

  // `untaken`: of the bytes left, those that the kernel has not taken either.
  void note_send_failure(uint32_t index, int32_t failure,
                         std::span<const std::byte> untaken) noexcept {
    // The kernel reports a reset once: the receive then finds only an end.
    if (failure != -EPIPE) slots_[index].failure = failure;
    slots_[index].untaken_bytes = static_cast<uint32_t>(untaken.size());
    note_send_result(index, failure);
  }

  void note_end(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    if (slot.failure != 0) return note_failure(index, slot.failure);
    if (slot.leaving() || slot.end_reported || slot.failure_reported) return;
    slot.end_reported = slot.end = true;
    unreported_.push(index);
  }

  void note_hang_up(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    if (slot.failure != 0) return note_failure(index, slot.failure);
    if (slot.leaving() || slot.hang_up_reported || slot.end_reported || slot.failure_reported)
      return;
    slot.hang_up_reported = slot.hang_up_unreported = true;
    unreported_.push(index);
  }

  void note_failure(uint32_t index, int32_t failure) noexcept {
    ASSERT(failure < 0);
    Slot& slot = slots_[index];
    if (slot.leaving() || slot.failure_reported) return;
    slot.failure_reported = slot.failed = true;
    slot.failure = failure;
    unreported_.push(index);
  }

  // From now on only the end of a send and `closed` are reported.
  void begin_close(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    slot.closing = true;
    slot.connecting = slot.connected = false;
    slot.releasing = slot.released = false;
    slot.end = slot.hang_up_unreported = slot.failed = false;
  }

  // From now on only bytes and `released` are reported.
  void begin_release(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    ASSERT(!slot.sending);
    ASSERT(!slot.send_finished);
    slot.releasing = true;
    slot.end = slot.hang_up_unreported = slot.failed = false;
  }

  void note_closed(uint32_t index) noexcept {
    ASSERT(slots_[index].closing);
    ASSERT(!slots_[index].closed);
    slots_[index].closed = true;
    unreported_.push(index);
  }

  void note_released(uint32_t index) noexcept {
    ASSERT(slots_[index].releasing);
    ASSERT(!slots_[index].released);
    slots_[index].released = true;
    unreported_.push(index);
  }

  // Reports the noted events, as far as there is room.
  void report(EventSink& sink) noexcept {
    while (!unreported_.empty()) {
      const uint32_t index = unreported_.front();
      if (!report(index, sink)) return;
      unreported_.pop();
      if (slots_[index].closed || slots_[index].released) free(index);
    }
  }

 private:
  void note_send_result(uint32_t index, int32_t result) noexcept {
    Slot& slot = slots_[index];
    ASSERT(slot.sending);
    slot.sent = true;
    slot.send_result = result;
    unreported_.push(index);
  }

  bool report(uint32_t index, EventSink& sink) noexcept {
    Slot& slot = slots_[index];
    const SocketId socket = id_of(index);
    if (slot.connected) {
      if (sink.full()) return false;
      sink.push({.kind = EventKind::connected, .socket = socket});
      slot.connected = false;
    }
    if (slot.sent) {
      if (sink.full()) return false;
      sink.push({.kind = EventKind::sent,
                 .socket = socket,
                 .result = slot.send_result,
                 .untaken_bytes = slot.untaken_bytes});
      slot.sent = slot.sending = false;
    }
    if (slot.hang_up_unreported) {
      if (sink.full()) return false;
      sink.push({.kind = EventKind::hung_up, .socket = socket});
      slot.hang_up_unreported = false;
    }
    if (slot.end) {
      if (sink.full()) return false;
      sink.push({.kind = EventKind::end_of_stream, .socket = socket});
      slot.end = false;
    }
    if (slot.failed) {
      if (sink.full()) return false;
      sink.push({.kind = EventKind::failed, .socket = socket, .result = slot.failure});
      slot.failed = false;
    }
    if (slot.closed) {
      if (sink.full()) return false;
      sink.push({.kind = EventKind::closed, .socket = socket});
    }
    if (slot.released) {
      if (sink.full()) return false;
      const int fd = std::exchange(slot.fd, -1);
      sink.push({.kind = EventKind::released, .socket = socket, .result = fd});
    }
    return true;
  }

  void free(uint32_t index) noexcept {
    ASSERT(!slots_[index].sending);
    slots_[index].open = false;
    next_free_[index] = free_;
    free_ = index;
  }

  std::vector<Slot> slots_;
  SlotQueue<Slot, &Slot::unreported> unreported_;
  std::vector<uint32_t> next_free_;
  uint32_t free_ = 0;  // the capacity: none
};

}  // namespace sluice::io
