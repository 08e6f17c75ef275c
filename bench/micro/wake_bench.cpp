// Measures the cost of waking a sleeping thread: two threads, each in the poll() of its own Io,
// wake each other alternately, pinned to cores 0 and 1 where these exist. The time is that of two
// wakes, there and back, the CPU time that of both sides; `p50_us` is the median of one wake.
// `ring/...` wake through a bare ring: by the eventfd that it reads, by a message to it
// (IORING_OP_MSG_RING) that is submitted at once, and by one that leaves with the waker's own wait.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/time.hpp"
#include "io/options.hpp"
#include "io/probe.hpp"
#include "io/uring/ring.hpp"
#include "io/wake_signal.hpp"
#include "load/clocks.hpp"

namespace sluice::io {
namespace {

constexpr int64_t wait_ns = base::ns_per_s;

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void sleep_until_woken(Io& io) {
  std::array<Event, 8> events;
  while (io.poll(events, wait_ns) == 0) {
  }
}

enum class Way { eventfd, message, message_with_wait };

class BareRing {
 public:
  explicit BareRing(Way way) : way_(way) {}

  void wake(BareRing& other) noexcept {
    if (way_ == Way::eventfd) return other.signal_.raise();
    io_uring_sqe* message = ring_.next_submission();
    io_uring_prep_msg_ring(message, other.ring_.raw().ring_fd, 1, 0, 0);
    message->flags |= IOSQE_CQE_SKIP_SUCCESS;
    if (way_ == Way::message) io_uring_submit(&ring_.raw());
  }

  // A wake that would leave with this side's wait.
  void submit() noexcept { io_uring_submit(&ring_.raw()); }

  void sleep() noexcept {
    for (bool woken = false; !woken;) {
      if (way_ == Way::eventfd && !reads_) read_signal();
      ring_.enter(wait_ns);
      ring_.completions([&](const io_uring_cqe&) { return woken = true; });
    }
    if (way_ != Way::eventfd) return;
    signal_.acknowledge();
    reads_ = false;
  }

 private:
  void read_signal() noexcept {
    io_uring_sqe* read = ring_.next_submission();
    io_uring_prep_read(read, signal_.fd(), &count_, sizeof count_, 0);
    reads_ = true;
  }

  const Way way_;
  WakeSignal signal_{0};
  uint64_t count_ = 0;
  bool reads_ = false;
  Ring ring_{64, 4'096};
};

// The same for an Io.
class WholeIo {
 public:
  explicit WholeIo(base::IoBackend backend) : io_(make_io({.backend = backend}, Options{}).io) {}
  void wake(WholeIo& other) noexcept { other.io_->wake(); }
  void submit() noexcept {}
  void sleep() noexcept { sleep_until_woken(*io_); }

 private:
  std::unique_ptr<Io> io_;
};

template <typename Side, typename Kind>
void wake_and_be_woken(benchmark::State& state, Kind kind) {
  pin_to(0);
  Side here(kind);
  std::atomic<Side*> there{nullptr};
  std::atomic<bool> ends{false};
  std::thread other{[&] {
    pin_to(1);
    Side side(kind);  // on the thread that sleeps in it
    there = &side;
    for (side.sleep(); !ends; side.sleep()) side.wake(here);
  }};
  while (there == nullptr) std::this_thread::yield();
  std::vector<uint64_t> there_and_back_ns;
  for (auto _ : state) {
    const uint64_t begin_ns = load::now_ns();
    here.wake(*there.load());
    here.sleep();
    there_and_back_ns.push_back(load::now_ns() - begin_ns);
  }
  ends = true;
  here.wake(*there.load());
  here.submit();
  other.join();
  const auto middle = there_and_back_ns.begin() + std::ssize(there_and_back_ns) / 2;
  std::nth_element(there_and_back_ns.begin(), middle, there_and_back_ns.end());
  state.counters["p50_us"] = static_cast<double>(*middle) / 2 / 1e3;
}

void whole_io(benchmark::State& state, base::IoBackend backend) {
  wake_and_be_woken<WholeIo>(state, backend);
}

void ring(benchmark::State& state, Way way) {
  wake_and_be_woken<BareRing>(state, way);
}

BENCHMARK_CAPTURE(whole_io, uring, base::IoBackend::uring)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(whole_io, epoll, base::IoBackend::epoll)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(ring, eventfd, Way::eventfd)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(ring, message, Way::message)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(ring, message_with_wait, Way::message_with_wait)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace sluice::io

BENCHMARK_MAIN();
