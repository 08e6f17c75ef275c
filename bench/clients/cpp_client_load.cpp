// Measures the cost of a call through the C++ client, and the least possible cost of a call: a
// prepared frame, written and awaited by hand.
// Flow:   cpp_client_load MODE -> a line of JSON.
// Units:  one request is one entry, counted when its caller has the verdict.
#include <poll.h>
#include <sys/socket.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "load/latency_histogram.hpp"
#include "sluicegate/address.hpp"
#include "sluicegate/client.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using sluice::load::LatencyHistogram;

struct Flags {
  std::string mode = "async";
  std::vector<std::string> addresses{"127.0.0.1:8081"};  // several: of nodes with shared keys
  uint32_t threads = 4;
  uint32_t outstanding = 10'000;
  uint32_t keys = 1'000'000;
  uint32_t batch = 65'536;
  uint32_t in_flight = sluicegate::ClientOptions{}.frames_in_flight;
  double seconds = 2;
};

struct Measured {
  uint64_t calls = 0;
  uint64_t approved = 0;
  uint64_t failed = 0;
  LatencyHistogram latency;  // of each call, or of each batch
  double seconds = 0;        // wall clock and CPU time from the first call on
  double cpu_seconds = 0;
};

// 15 bytes each, as in all our loads. The keys are adjacent in the caller's memory, so they are in
// the cache like a key just made; the server's hash scatters them over its table.
class Keys {
 public:
  explicit Keys(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      char text[16];
      std::snprintf(text, sizeof text, "user:%010u", i);
      texts_.emplace_back(text, 15);
    }
  }
  std::string_view at(uint64_t step) const noexcept {
    return texts_[static_cast<uint32_t>(step) % static_cast<uint32_t>(texts_.size())];
  }
  std::vector<std::string_view> views() const { return {texts_.begin(), texts_.end()}; }

 private:
  std::vector<std::string> texts_;
};

uint64_t ns_since(Clock::time_point begin) {
  return static_cast<uint64_t>((Clock::now() - begin).count());
}

double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// The measured time: begins when the connection is established.
class Window {
 public:
  explicit Window(double seconds)
      : end_{begin_ +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>{seconds})} {}
  bool is_open() const { return Clock::now() < end_; }
  void close(Measured& measured) const {
    measured.seconds = static_cast<double>(ns_since(begin_)) * 1e-9;
    measured.cpu_seconds = cpu_seconds() - cpu_begin_;
  }

 private:
  Clock::time_point begin_ = Clock::now();
  double cpu_begin_ = cpu_seconds();
  Clock::time_point end_;
};

sluicegate::Client client_of(const Flags& flags, sluicegate::ClientOptions options = {}) {
  if (flags.addresses.size() > 1) return sluicegate::Client{flags.addresses, std::move(options)};
  return sluicegate::Client{flags.addresses.front(), std::move(options)};
}

void count(Measured& measured, const sluicegate::Outcome& outcome) {
  ++measured.calls;
  measured.approved += outcome.approved() ? 1 : 0;
  measured.failed += outcome.failure != sluicegate::Failure::none ? 1 : 0;
}

// Threads make single calls; the client blocks them at `outstanding` open calls.
Measured call_async(const Flags& flags, const Keys& keys) {
  Measured measured;  // written by the client's single callback thread
  {
    sluicegate::Client client =
        client_of(flags, {.pending_max = flags.outstanding, .frames_in_flight = flags.in_flight});
    client.ping();
    const Window window{flags.seconds};
    std::vector<std::thread> callers;
    for (uint32_t thread = 0; thread < flags.threads; ++thread) {
      callers.emplace_back([&, thread] {
        for (uint64_t step = thread; step % 64 >= flags.threads || window.is_open();
             step += flags.threads) {
          const auto begin = Clock::now();
          client.acquire_async(keys.at(step), [&measured, begin](const auto& outcome) {
            count(measured, outcome);
            measured.latency.add(ns_since(begin));
          });
        }
      });
    }
    for (std::thread& each : callers) each.join();
    while (client.pending() > 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    window.close(measured);
  }
  return measured;
}

void merge(Measured& into, const Measured& from) {
  into.calls += from.calls;
  into.approved += from.approved;
  into.failed += from.failed;
}

// Each thread waits for the answer to its call; one thread is the lone caller.
Measured call_blocking(const Flags& flags, const Keys& keys) {
  sluicegate::Client client = client_of(flags, {.frames_in_flight = flags.in_flight});
  client.ping();
  const Window window{flags.seconds};
  Measured sum;
  std::mutex mutex;
  std::vector<std::thread> callers;
  for (uint32_t thread = 0; thread < flags.threads; ++thread) {
    callers.emplace_back([&, thread] {
      Measured own;
      for (uint64_t step = thread; window.is_open(); step += flags.threads) {
        const auto begin = Clock::now();
        count(own, client.acquire(keys.at(step)));
        own.latency.add(ns_since(begin));
      }
      const std::lock_guard lock{mutex};
      merge(sum, own);
      if (thread == 0) sum.latency = own.latency;
    });
  }
  for (std::thread& each : callers) each.join();
  window.close(sum);
  return sum;
}

// By hand: one frame of one key, sent and received on a blocking socket.
Measured call_raw(const Flags& flags, const Keys& keys) {
  const auto server = sluicegate::parse_address(flags.addresses.front());
  sluicegate::Connection connection{server.host, server.port};
  const int socket = connection.native_handle();
  std::vector<uint64_t> frame;
  const std::string_view key = keys.at(0);
  sluicegate::encode(1, sluicegate::Acquire{.keys = {&key, 1}}, frame);
  std::vector<uint64_t> answer(64);
  Measured measured;
  const Window window{flags.seconds};
  while (window.is_open()) {
    const auto begin = Clock::now();
    if (send(socket, frame.data(), frame.size() * 8, MSG_NOSIGNAL) < 0) break;
    pollfd watched{.fd = socket, .events = POLLIN, .revents = 0};
    poll(&watched, 1, -1);
    if (recv(socket, answer.data(), answer.size() * 8, 0) <= 0) break;
    ++measured.calls;
    measured.latency.add(ns_since(begin));
  }
  measured.approved = measured.calls;
  window.close(measured);
  return measured;
}

template <typename Entry, typename Fill>
Measured call_batches(sluicegate::Client& client, const Flags& flags, Fill entry_at) {
  std::vector<Entry> entries(flags.batch);
  Measured measured;
  const Window window{flags.seconds};
  for (uint64_t step = 0; window.is_open();) {
    for (Entry& entry : entries) entry = entry_at(step++);
    const auto begin = Clock::now();
    const auto outcome = client.acquire_batch(std::span<const Entry>{entries});
    measured.latency.add(ns_since(begin));
    measured.calls += entries.size();
    measured.failed += outcome.failed;
    for (const auto verdict : outcome.verdicts) {
      measured.approved += verdict == sluicegate::Verdict::approved ? 1 : 0;
    }
  }
  window.close(measured);
  return measured;
}

// Asks for every key once before the clock runs: the first request of a key costs more.
Measured call_keys(const Flags& flags, const Keys& keys) {
  sluicegate::Client client = client_of(flags);
  (void)client.acquire_batch(keys.views());
  return call_batches<std::string_view>(client, flags,
                                        [&](uint64_t step) { return keys.at(step); });
}

Measured call_handles(const Flags& flags, const Keys& keys) {
  sluicegate::Client client = client_of(flags);
  auto handles = client.intern(keys.views());
  // The keys are interned one after the other, so their slots are adjacent in the server: ask in
  // another order.
  std::shuffle(handles.begin(), handles.end(), std::mt19937{1});
  (void)client.acquire_batch(handles);
  return call_batches<uint32_t>(client, flags, [&](uint64_t step) {
    return handles[static_cast<uint32_t>(step) % static_cast<uint32_t>(handles.size())];
  });
}

using Run = Measured (*)(const Flags&, const Keys&);

const std::map<std::string, Run>& modes() {
  static const std::map<std::string, Run> all{{"async", call_async},
                                              {"blocking", call_blocking},
                                              {"raw", call_raw},
                                              {"keys", call_keys},
                                              {"handles", call_handles}};
  return all;
}

void report(const Flags& flags, const Measured& measured) {
  const nlohmann::json line{{"mode", flags.mode},
                            {"threads", flags.threads},
                            {"keys", flags.keys},
                            {"seconds", measured.seconds},
                            {"cpu_share", measured.cpu_seconds / measured.seconds},
                            {"calls", measured.calls},
                            {"approved", measured.approved},
                            {"failed", measured.failed},
                            {"per_second", static_cast<double>(measured.calls) / measured.seconds},
                            {"p50_us", measured.latency.quantile_us(0.5)},
                            {"p99_us", measured.latency.quantile_us(0.99)}};
  std::puts(line.dump().c_str());
}

int run(const Flags& flags) {
  const Keys keys{flags.keys};
  const Measured measured = modes().at(flags.mode)(flags, keys);
  report(flags, measured);
  return measured.calls > 0 && measured.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Calls a running server through the C++ client, and prints the cost as JSON.\n\n"
      "  async     threads make single calls with callbacks, --outstanding calls open\n"
      "  blocking  threads that each wait for their answer (--threads 1: a lone caller)\n"
      "  raw       the floor of that: one frame, sent and received by hand\n"
      "  keys      acquire_batch() of --batch keys\n"
      "  handles   the same by handle\n"};
  Flags flags;
  std::vector<std::string> names;
  for (const auto& [name, function] : modes()) names.push_back(name);
  app.add_option("MODE", flags.mode, "what to measure")->check(CLI::IsMember(names))->required();
  app.add_option(
         "--address", flags.addresses,
         "the server's native port; of several nodes theirs, as 10.0.0.1:8081,10.0.0.2:8081")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "that call")->check(CLI::Range(1, 1'000));
  app.add_option("--outstanding", flags.outstanding, "open calls of async at most");
  app.add_option("--keys", flags.keys, "distinct keys")->check(CLI::Range(1, 10'000'000));
  app.add_option("--batch", flags.batch, "entries of a batch")->check(CLI::Range(1, 10'000'000));
  app.add_option("--in-flight", flags.in_flight, "frames of single calls that are out at most")
      ->check(CLI::Range(1, 64));
  app.add_option("--seconds", flags.seconds, "how long")->check(CLI::Range(0.01, 600.0));
  try {
    app.parse(argc, argv);
    return run(flags);
  } catch (const CLI::ParseError& fault) {
    return app.exit(fault) == 0 ? 0 : 2;
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "Error: %s\n", fault.what());
    return 2;
  }
}
