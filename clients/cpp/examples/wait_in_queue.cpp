// Waits in the queue: there are more workers than permits. The server serves the waiters first in,
// first out, and each worker releases its permit when it is done, so that the next one goes on at
// once.
//
//   wait_in_queue HOST:PORT
#include <sluicegate/client.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr const char* key = "printer";
constexpr uint32_t printers = 2;

// A permit that the destructor releases.
class Permit {
 public:
  explicit Permit(sluicegate::Client& client) : client_{client} {
    const auto outcome =
        client_.acquire(key, {.max_requests = printers, .may_wait = true, .wait_limit_ms = 30'000});
    if (!outcome) throw std::runtime_error("no printer: " + std::string{name(outcome.verdict)});
  }
  ~Permit() { client_.release_async(key); }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

 private:
  sluicegate::Client& client_;
};

// Counts how many workers print at once: now, and at most so far.
struct Gauge {
  std::atomic<int> now{0};
  std::atomic<int> most{0};

  void enter() {
    const int with_me = ++now;
    int seen = most;
    while (with_me > seen && !most.compare_exchange_weak(seen, with_me)) {
    }
  }
  void leave() { --now; }
};

void print_page(sluicegate::Client& client, Gauge& gauge) {
  const Permit permit{client};
  gauge.enter();
  std::this_thread::sleep_for(20ms);
  gauge.leave();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    sluicegate::Client client{argc > 1 ? argv[1] : "127.0.0.1:8081"};
    Gauge gauge;
    std::vector<std::thread> workers;
    for (int i = 0; i < 8; ++i) {
      workers.emplace_back([&] {
        try {
          print_page(client, gauge);
        } catch (const std::exception& fault) {
          std::fprintf(stderr, "a page was not printed: %s\n", fault.what());
        }
      });
    }
    for (std::thread& each : workers) each.join();
    std::printf("8 pages on %u printers, at most %d at once\n", printers, gauge.most.load());
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "Error: %s\n", fault.what());
    return 1;
  }
}
