// Io in memory, with a clock that tests move, seeded faults, and the peers' side of every socket.
// Flow:   SimClient <-> SimLink <-> SimIo -> events -> the code under test, in one thread. One
//         SimIo stands for one worker; those of one SimNetwork are one machine.
// Shape:  each poll() plays the kernel: moves bytes of sends, completes multishot receives through
//         ReceiveArming, in an order and in pieces that the faults choose.
// Errors: breaks of io.hpp's contract are ASSERTed: two sends in flight, changed bytes of a send in
//         flight, a call on a socket that is closed. Buffers turn to garbage with the next poll().
// Lives:  in a network of its own unless it is given one; linked into tests only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/io.hpp"
#include "io/receive_arming.hpp"
#include "io/sim/sim_client.hpp"
#include "io/sim/sim_network.hpp"

namespace sluice::io {

struct SimOptions {
  uint32_t node = 0;  // whose worker this is; see sim_wires.hpp
  uint32_t sockets_max = 64;
  uint32_t listeners_count = 2;
  uint32_t receive_buffers = 8;
  uint32_t receive_buffer_bytes = 4'096;   // a multiple of 8
  uint32_t peer_window_bytes = 64 * 1024;  // sent, but not read by the client
  int64_t turn_ns_max = 0;                 // each poll() takes up to this long
  int64_t wait_ns_max = INT64_MAX;         // a poll() that waits returns after this at most
  int64_t clock_jump_ns_max = 10 * base::ns_per_s;
  base::Now start = sim_start;  // of a network of its own
};

// Observes what the kernel takes of every send: a connection's bytes in their order.
class TakenWatch {
 public:
  virtual void on_taken(uint32_t link, std::span<const std::byte> bytes) = 0;

 protected:
  ~TakenWatch() = default;
};

class SimIo final : public Io, private SimBacklog {
 public:
  SimIo(const SimOptions& options, Random& random);
  SimIo(const SimOptions& options, SimNetwork& network);
  ~SimIo() override;

  std::string_view name() const noexcept override { return "sim"; }
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
  void discard(int fd) noexcept override;
  std::string peer(SocketId socket) noexcept override;
  size_t poll(std::span<Event> events, int64_t wait_ns) noexcept override;
  base::Now now() const noexcept override { return now_; }
  void wake() noexcept override { woken_.store(true, std::memory_order_release); }
  bool is_quiet() const noexcept override;
  int64_t pause() noexcept override { return network_.pause(); }
  const Statistics& statistics() const noexcept override { return statistics_; }

  // SimIos of the network reach this listener at `address`.
  void listen(ListenerId listener, const PeerAddress& address) {
    network_.wires().listen(address, options_.node, *this, listener);
  }
  // A SimClient connects to this worker's listener, wherever the connection goes from there.
  SimClient connect(ListenerId listener);
  void watch_taken(TakenWatch& watch) noexcept { taken_watch_ = &watch; }
  SimNetwork& network() noexcept { return network_; }
  Faults& faults() noexcept { return faults_; }

  // The next poll() will see the clock so much later. The wall clock may go back.
  void advance(int64_t ns) noexcept { network_.advance(ns); }
  void set_wall_clock(int64_t wall_ns) noexcept { network_.set_wall_clock(wall_ns); }

  // Whether this poll() or the next one would report an event without any fault; a worker without
  // one sleeps in its poll(). What other SimIos have sent counts once it has arrived: when that may
  // be, SimWires::due_ns() returns.
  bool has_event_pending() const noexcept;
  // Whether a poll() would move bytes of a send, as a kernel does by itself.
  bool is_sending() const noexcept;

  uint32_t sockets_open() const noexcept { return sockets_open_; }
  // Connections that wait to be accepted.
  size_t backlog_count() const noexcept;
  uint32_t sends_in_flight() const noexcept;
  // Whether the server has given up its side of this connection.
  bool server_closed(uint32_t link) const noexcept { return network_.link(link).server_closed; }
  // The link of an `accepted` socket, to identify its client's connection in tests.
  uint32_t link_of(SocketId socket) const noexcept {
    const auto opened = std::find_if(opened_.rbegin(), opened_.rend(),
                                     [&](const Opened& one) { return one.socket == socket; });
    ASSERT(opened != opened_.rend());
    return opened->link;
  }

 private:
  // Larger sends in flight are checked at their end only: a slow peer's would cost too much.
  static constexpr size_t checksum_bytes_each_poll = 4'096;

  struct Send {
    std::span<const std::byte> bytes;
    uint64_t checksum = 0;
    size_t taken_bytes = 0;  // by the kernel so far
    int32_t result = 0;
    bool in_flight = false;
    bool done = false;  // only `sent` is left to be reported
  };

  struct Slot {
    uint32_t generation = 0;
    uint32_t link = 0;
    ReceiveArming arming;
    uint64_t armed_in_poll = 0;    // a submission takes effect with the next poll
    bool cancelling = false;       // the receive in flight is to end
    uint32_t late_deliveries = 0;  // since receive_stop()
    Send send;
    bool open = false;
    bool connecting = false;  // from connect() until the connection stands, which may be never
    bool closing = false;
    bool releasing = false;         // release() was called, and not close()
    uint64_t reported_in_poll = 0;  // bytes; `released` follows in a later one
    bool send_finished = false;
    bool hang_up_reported = false;
    bool failure_reported = false;
  };

  struct Listener {
    std::deque<uint32_t> backlog;  // links
    uint64_t failed_in_poll = 0;   // no second try in the same poll
    bool accepting = false;
    bool finishing = false;
    bool closed = false;
  };

  struct Opened {
    SocketId socket;
    uint32_t link;
  };

  // A socket or a listener that may have an event in this poll.
  struct Candidate {
    uint32_t index;
    bool listener;
  };

  SimIo(const SimOptions& options, std::unique_ptr<SimNetwork> own_network);

  Slot& slot_of(SocketId socket) noexcept;
  Slot& closable_slot_of(SocketId socket) noexcept;
  SocketId open_slot(uint32_t link) noexcept;
  void free_slot(uint32_t index) noexcept;
  SimLink& link_of(const Slot& slot) const noexcept { return network_.link(slot.link); }
  static SocketId id_of(uint32_t index, const Slot& slot) noexcept {
    return {.index = index, .generation = slot.generation};
  }

  bool enqueue(ListenerId listener, uint32_t link) override;
  bool accept_due(const Listener& listener) const noexcept;
  bool event_due(const Slot& slot) const noexcept;

  // sim_io.cpp: one poll
  void act(uint32_t index, ReceiveAction action) noexcept;
  void move_clock() noexcept;
  void sleep(int64_t wait_ns) noexcept;
  void return_buffers() noexcept;
  bool wake_seen() noexcept;
  size_t collect(std::span<Event> events) noexcept;
  std::optional<Event> next_event(Candidate candidate) noexcept;
  std::optional<Event> accept_next(ListenerId listener) noexcept;
  std::optional<Event> socket_event(uint32_t index) noexcept;

  // sim_kernel.cpp: the kernel's effects on one socket
  void reset_some() noexcept;
  void move_send(Slot& slot) noexcept;
  static void finish_send(Slot& slot, int32_t result) noexcept;
  static uint64_t checksum(std::span<const std::byte> bytes) noexcept;
  std::optional<Event> connecting_event(uint32_t index) noexcept;
  std::optional<Event> receive_event(uint32_t index) noexcept;
  std::optional<Event> cancel_event(uint32_t index) noexcept;
  Event deliver(uint32_t index) noexcept;
  std::optional<Event> hang_up_event(uint32_t index) noexcept;
  std::optional<Event> sent_event(uint32_t index) noexcept;
  std::optional<Event> closed_event(uint32_t index) noexcept;
  std::optional<Event> released_event(uint32_t index) noexcept;
  std::span<std::byte> take_buffer(size_t bytes) noexcept;

  SimOptions options_;
  std::unique_ptr<SimNetwork> own_network_;  // null if the caller gave one
  SimNetwork& network_;
  Random& random_;
  Faults& faults_;
  base::Now now_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<Opened> opened_;  // all sockets that there were
  std::vector<Listener> listeners_;
  std::deque<uint32_t> starved_;    // sockets, in the order they ran out of buffers
  std::vector<std::byte> taken_;    // by receive_now()
  std::vector<std::byte> buffers_;  // receive_buffers of receive_buffer_bytes each
  uint32_t buffers_out_ = 0;
  std::vector<Candidate> candidates_;
  uint32_t sockets_open_ = 0;
  uint64_t polls_ = 0;
  uint64_t buffers_gone_until_ = 0;  // this poll
  bool overflows_ = false;           // in this poll
  TakenWatch* taken_watch_ = nullptr;
  std::atomic<bool> woken_ = false;
  Statistics statistics_;
};

}  // namespace sluice::io
