// Io over epoll, where io_uring is blocked: level-triggered, one set of receive buffers per worker.
// Flow:   epoll_wait -> accept, receive, send until they would block -> events.
// Shape:  interest in a socket is changed at the next poll(), so a start and a stop in between cost
//         nothing. A socket is no longer watched after its hang-up was reported: epoll would report
//         it for ever.
// Errors: see Io. The constructor throws std::system_error.
// Lives:  sends are tried at once, in send(); their `sent` comes with the next poll().
// Source: epoll(7), tcp(7).
#pragma once

#include <sys/epoll.h>

#include <array>
#include <vector>

#include "base/mapped_region.hpp"
#include "io/accept_errors.hpp"
#include "io/direct_receive.hpp"
#include "io/io.hpp"
#include "io/options.hpp"
#include "io/peer_name.hpp"
#include "io/refusal_pause.hpp"
#include "io/socket_table.hpp"
#include "io/wake_signal.hpp"

namespace sluice::io {

class EpollIo final : public Io {
 public:
  explicit EpollIo(Options options);
  ~EpollIo() override;

  std::string_view name() const noexcept override { return "epoll"; }
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
  void wake() noexcept override { wake_signal_.raise(); }
  bool is_quiet() const noexcept override { return changed_.empty() && sockets_.all_reported(); }
  int64_t pause() noexcept override;
  const Statistics& statistics() const noexcept override { return statistics_; }

  // Why waits are in whole milliseconds: the error of epoll_pwait2; 0: they are precise.
  int precise_wait_error() const noexcept { return precise_wait_error_; }

 private:
  static constexpr uint32_t unwatched = 0xFFFF'FFFF;

  struct Slot : SocketSlot {
    bool receiving = false;
    bool drained = false;          // a receive found the end of the stream
    bool hung_up = false;          // both directions are over; nothing more can happen
    uint32_t watched = unwatched;  // the interest that epoll knows
    SlotLink changed;
  };

  struct Listener {
    FileDescriptor fd;
    bool started = false;
    bool finishing = false;
    bool finished = false;
    bool watched = false;
    int64_t retry_ns = 0;  // not before, after a failure
  };

  int64_t until_retry(int64_t wait_ns) const noexcept;
  void apply_changes() noexcept;
  uint32_t interest(const Slot& slot) const noexcept;
  void watch_listener(uint32_t index, EventSink& sink) noexcept;
  void pause_accepting(uint32_t index, int32_t failure, EventSink& sink) noexcept;
  int wait_for_events(size_t events_max, int64_t wait_ns) noexcept;
  void wait(EventSink& sink, int64_t wait_ns) noexcept;
  void dispatch(EventSink& sink, size_t ready_count) noexcept;

  void accept_ready(uint32_t index, EventSink& sink) noexcept;
  bool accept_one(uint32_t index, EventSink& sink) noexcept;
  void finish_listener(uint32_t index, EventSink& sink) noexcept;

  void connect_ready(uint32_t index) noexcept;
  void socket_ready(uint32_t index, uint32_t ready, EventSink& sink, uint32_t buffers) noexcept;
  void receive(uint32_t index, EventSink& sink, uint32_t buffers) noexcept;
  void hung_up(uint32_t index, uint32_t ready) noexcept;
  void send_more(uint32_t index) noexcept;

  FileDescriptor epoll_;
  WakeSignal wake_signal_;
  SpareDescriptor spare_;
  std::vector<Listener> listeners_;
  SocketTable<Slot> sockets_;
  SlotQueue<Slot, &Slot::changed> changed_;
  uint32_t buffers_;
  uint32_t buffer_bytes_;
  base::MappedRegion memory_;
  DirectReceive direct_;
  size_t memory_used_ = 0;  // by what this poll() received
  std::array<epoll_event, 128> ready_{};
  RefusalPause refusal_pause_;
  int precise_wait_error_ = 0;
  base::Now now_;
  const int64_t clock_offset_ns_;
  Statistics statistics_;
};

}  // namespace sluice::io
