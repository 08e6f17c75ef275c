// Io over io_uring: multishot accept and receive, one buffer ring, one send in flight per socket.
// Flow:   calls -> marks in the slot -> poll(): submissions -> completions -> events.
// Shape:  calls submit nothing themselves: poll() turns what changed into submissions, so a start
//         and a stop in between cost nothing, and a full submission queue loses nothing.
// Errors: see Io. The constructor throws std::system_error.
// Lives:  a descriptor is closed or released only when the last completion of its last operation
//         has come: a pending operation would keep the peer from seeing the end, take bytes that
//         are the adopter's, or hit another socket. Built, polled and destroyed by one thread.
// Source: io_uring(7), the manual pages of io_uring_prep_*(3).
#pragma once

#include "base/mapped_region.hpp"
#include "io/direct_receive.hpp"
#include "io/io.hpp"
#include "io/options.hpp"
#include "io/peer_name.hpp"
#include "io/uring/buffer_ring.hpp"
#include "io/uring/operation.hpp"
#include "io/uring/pending_operations.hpp"
#include "io/uring/ring.hpp"
#include "io/uring/uring_listeners.hpp"
#include "io/uring/uring_slot.hpp"
#include "io/uring/wake_reader.hpp"

namespace sluice::io {

class UringIo final : public Io {
 public:
  // Takes the listeners only when nothing can fail any more.
  explicit UringIo(Options&& options);
  ~UringIo() override;

  std::string_view name() const noexcept override { return "uring"; }
  void accept_start(ListenerId listener) noexcept override;
  void accept_finish(ListenerId listener) noexcept override;
  tl::expected<SocketId, int32_t> connect(const PeerAddress& peer) noexcept override;
  void receive_start(SocketId socket) noexcept override;
  void receive_stop(SocketId socket) noexcept override;
  std::optional<std::span<std::byte>> receive_now(SocketId socket,
                                                  size_t bytes_max) noexcept override;
  void send(SocketId socket, std::span<const std::byte> bytes) noexcept override;
  void send_finish(SocketId socket) noexcept override;
  void close(SocketId socket) noexcept override;
  void release(SocketId socket) noexcept override;
  std::optional<SocketId> adopt(int fd) noexcept override;
  void discard(int fd) noexcept override { ::close(fd); }
  std::string peer(SocketId socket) noexcept override {
    return peer_name(sockets_.usable(socket).fd);
  }
  size_t poll(std::span<Event> events, int64_t wait_ns) noexcept override;
  base::Now now() const noexcept override {
    return {.monotonic_ns = now_.monotonic_ns + clock_offset_ns_, .wall_ns = now_.wall_ns};
  }
  void wake() noexcept override { wake_reader_.raise(); }
  bool is_quiet() const noexcept override {
    return changed_.empty() && sockets_.all_reported() && ring_.is_quiet();
  }
  int64_t pause() noexcept override;
  const Statistics& statistics() const noexcept override;

 private:
  using Slot = UringSlot;

  bool enter(int64_t wait_ns, EventSink& sink) noexcept;
  io_uring_sqe* prepare_socket(Operation operation, uint32_t index) noexcept;
  void act(uint32_t index, ReceiveAction action) noexcept;
  void stop_for_good(uint32_t index) noexcept;

  // Before waiting: makes submissions of the changes. False: the kernel takes no more for now.
  void rearm_starved() noexcept;
  void apply_changes() noexcept;
  bool apply(uint32_t index) noexcept;
  bool apply_leave(uint32_t index) noexcept;
  SocketAddress& peer_of(uint32_t index) const noexcept;
  bool submit_connect(uint32_t index) noexcept;
  bool submit_send(uint32_t index) noexcept;
  bool submit_receive(uint32_t index) noexcept;
  bool submit_cancel(uint32_t index) noexcept;
  bool submit_watch(uint32_t index) noexcept;
  void report_hang_up(uint32_t index) noexcept;
  int64_t until_retry(int64_t wait_ns) const noexcept;

  // After waiting: each completion makes one event at most.
  void reap(EventSink& sink) noexcept;
  void complete(const io_uring_cqe& cqe, EventSink& sink) noexcept;
  void complete_connect(const io_uring_cqe& cqe, uint32_t index) noexcept;
  void complete_receive(const io_uring_cqe& cqe, uint32_t index, EventSink& sink) noexcept;
  void complete_watch(const io_uring_cqe& cqe, uint32_t index) noexcept;
  void complete_send(const io_uring_cqe& cqe, uint32_t index) noexcept;
  void complete_socket(const io_uring_cqe& cqe, OperationTag tag, EventSink& sink) noexcept;
  void leave_if_quiet(uint32_t index) noexcept;

  Ring ring_;
  PendingOperations operations_{ring_};
  BufferRing buffers_;
  DirectReceive direct_;
  WakeReader wake_reader_;
  UringSockets sockets_;
  base::MappedRegion peers_;  // of each slot: the kernel may read it until the connection stands
  ChangedSlots changed_;
  // Receives that found no buffer: without having got bytes before, and after some.
  SlotQueue<Slot, &Slot::starved> starved_;
  SlotQueue<Slot, &Slot::starved> starved_after_bytes_;
  bool buffers_contended_ = false;  // several sockets waited for the buffers of this poll
  base::Now now_;
  const int64_t clock_offset_ns_;
  mutable Statistics statistics_;
  UringListeners listeners_;
};

}  // namespace sluice::io
