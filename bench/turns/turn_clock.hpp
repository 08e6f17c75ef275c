// Measures what a worker's turns cost: the CPU time of its thread outside the kernel's calls.
// Flow:   Worker -> TimedIo -> the real Io; begin_turn() and end_turn() around Worker::turn().
// Shape:  the clock stands still in poll() and in whatever else enters the kernel. Turns with page
//         faults are counted apart: the kernel's time for a fault is the thread's, too. So is that
//         of interrupts, which the kernel adds to whoever runs.
// Units:  nanoseconds of CPU time.
// Lives:  one thread; the real Io outlives it.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.hpp"
#include "io/io.hpp"

namespace sluice::turns_bench {

struct Turn {
  int64_t cpu_ns = 0;
  uint64_t faults = 0;
  uint32_t events = 0;
  uint64_t received_bytes = 0;
  bool has_adopted = false;  // the thread took new rules just before it
};

class TurnClock {
 public:
  void begin_turn() noexcept {
    const uint64_t faults = faults_of_thread();
    turn_.faults += faults - faults_;  // those of an adoption before it are its own
    faults_ = faults;
    start();
  }
  Turn end_turn() noexcept {
    stop();
    const uint64_t faults = faults_of_thread();
    turn_.faults += faults - faults_;
    faults_ = faults;
    Turn turn;
    std::swap(turn, turn_);
    return turn;
  }
  void note_adoption() noexcept { turn_.has_adopted = true; }

  void start() noexcept { started_ns_ = cpu_ns(); }
  void stop() noexcept { turn_.cpu_ns += cpu_ns() - started_ns_; }
  void note_received(size_t bytes) noexcept { turn_.received_bytes += bytes; }
  void note_events(size_t count) noexcept { turn_.events += static_cast<uint32_t>(count); }

 private:
  static int64_t cpu_ns() noexcept {
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * base::ns_per_s + time.tv_nsec;
  }
  static uint64_t faults_of_thread() noexcept {
    rusage usage;
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<uint64_t>(usage.ru_minflt + usage.ru_majflt);
  }

  Turn turn_;
  int64_t started_ns_ = 0;
  uint64_t faults_ = faults_of_thread();
};

// Everything as the real Io does it.
class TimedIo final : public io::Io {
 public:
  TimedIo(io::Io& io, TurnClock& clock) : io_(io), clock_(clock) {}

  std::string_view name() const noexcept override { return io_.name(); }
  void accept_start(io::ListenerId listener) noexcept override { io_.accept_start(listener); }
  void accept_finish(io::ListenerId listener) noexcept override { io_.accept_finish(listener); }
  void receive_start(io::SocketId socket) noexcept override { io_.receive_start(socket); }
  void receive_stop(io::SocketId socket) noexcept override { io_.receive_stop(socket); }
  std::optional<std::span<std::byte>> receive_now(io::SocketId socket,
                                                  size_t bytes_max) noexcept override {
    clock_.stop();
    const auto bytes = io_.receive_now(socket, bytes_max);
    if (bytes) clock_.note_received(bytes->size());
    clock_.start();
    return bytes;
  }
  void send(io::SocketId socket, std::span<const std::byte> bytes) noexcept override {
    if (is_uring_) return io_.send(socket, bytes);  // queues it only
    clock_.stop();
    io_.send(socket, bytes);
    clock_.start();
  }
  void send_finish(io::SocketId socket) noexcept override { io_.send_finish(socket); }
  void close(io::SocketId socket) noexcept override { io_.close(socket); }
  void release(io::SocketId socket) noexcept override { io_.release(socket); }
  tl::expected<io::SocketId, int32_t> connect(const io::PeerAddress& peer) noexcept override {
    return io_.connect(peer);
  }
  std::optional<io::SocketId> adopt(int fd) noexcept override { return io_.adopt(fd); }
  void discard(int fd) noexcept override { io_.discard(fd); }
  std::string peer(io::SocketId socket) noexcept override { return io_.peer(socket); }
  size_t poll(std::span<io::Event> events, int64_t wait_ns) noexcept override {
    clock_.stop();
    io_.receive_sparingly(receives_sparingly());
    const size_t count = io_.poll(events, wait_ns);
    clock_.note_events(count);
    for (const io::Event& event : events.first(count)) clock_.note_received(event.bytes.size());
    clock_.start();
    return count;
  }
  base::Now now() const noexcept override { return io_.now(); }
  void wake() noexcept override { io_.wake(); }
  bool is_quiet() const noexcept override { return io_.is_quiet(); }
  int64_t pause() noexcept override { return io_.pause(); }
  const io::Statistics& statistics() const noexcept override { return io_.statistics(); }

 private:
  io::Io& io_;
  TurnClock& clock_;
  const bool is_uring_ = io_.name() == "uring";
};

// The turns of a measurement. Its memory is taken before: it makes no page faults of its own.
class TurnBook {
 public:
  static constexpr size_t turns_max = 8'000'000;
  static constexpr size_t shown_max = 8;

  TurnBook() : turns_(turns_max) {}

  void restart() noexcept { count_ = 0; }
  void add(const Turn& turn) noexcept {
    if (count_ < turns_.size()) turns_[count_++] = turn;
  }
  // The largest come first.
  std::vector<Turn> sorted(bool with_faults) const {
    std::vector<Turn> chosen;
    for (const Turn& turn : std::span(turns_).first(count_)) {
      if ((turn.faults > 0) == with_faults) chosen.push_back(turn);
    }
    std::ranges::sort(chosen, std::greater{}, &Turn::cpu_ns);
    return chosen;
  }

 private:
  std::vector<Turn> turns_;
  size_t count_ = 0;
};

}  // namespace sluice::turns_bench
