// A whole connection: any bytes into the real worker over the simulated kernel, in pieces and with
// faults, then its end. Nothing may be left behind: no session, no waiter, no ticket, no handle.
// Method: one worker serves many inputs, a connection each, because it is slow to build; every
//         input begins with the same randomness and after all keys have expired.
// Shape:  byte 0: flags below; byte 1: the seed of pieces and faults; then the peer's bytes.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "sluicegate/frames.hpp"
#include "wire/http2_framing.hpp"

namespace {

using namespace sluice;

enum Flag : uint8_t {
  native = 1,       // else REST
  sends_hello = 2,  // a valid Hello comes first
  faulty = 4,
  half_closes = 8,
  resets = 16,
  drains = 32,
  shares = 64,  // another connection holds handles of two keys meanwhile
  http2 = 128,  // REST: HTTP/2's preface and SETTINGS come first
};

void require(bool condition) {
  if (!condition) std::abort();
}

constexpr int64_t window_ms = 100;
constexpr uint32_t handles_max = 6;

server::WorkerOptions worker_options() {
  return {.sessions = {.handles_max = handles_max, .waiters_max = 64},
          .shard = {.keys_max = 256,
                    .handles_max = handles_max,
                    .waiters_max = 64,
                    .policy = {.window_ms = window_ms, .max_requests = 3}},
          .connections_max = 4};
}

struct World {
  World() { worker.start(); }

  io::Random random{0};
  io::SimIo io{io::SimOptions{.sockets_max = 4 + server::spare_sockets}, random};
  server::WorkerGroup worker_group{route::MeshOptions{}};
  server::Worker worker{io, worker_options(), worker_group,
                        server::make_deciders(worker_options())};
};

void send_hello(io::SimClient& client) {
  std::vector<uint64_t> frame;
  sluicegate::encode(0, sluicegate::Hello{.client_name = "fuzz"}, frame);
  client.write(std::as_bytes(std::span(frame)));
}

void send_preface(io::SimClient& client) {
  constexpr std::string_view empty_settings("\0\0\0\4\0\0\0\0\0", 9);
  client.write(std::as_bytes(std::span(wire::http2_preface)));
  client.write(std::as_bytes(std::span(empty_settings)));
}

void intern_some(io::SimClient& client) {
  const std::vector<std::string_view> keys = {"user:1", "shared"};
  std::vector<uint64_t> frame;
  sluicegate::encode(1, sluicegate::Intern{.keys = keys}, frame);
  client.write(std::as_bytes(std::span(frame)));
}

// A bounded number of turns; the peer reads all that comes.
void run_turns(server::Worker& worker, io::SimClient& client, int turns) {
  std::vector<std::byte> answers;
  for (int count = 0; count < turns; ++count) {
    worker.turn(base::ns_per_ms);
    client.read(answers);
    answers.clear();
  }
}

void run(World& world, std::span<const uint8_t> input) {
  const uint8_t flags = input[0];
  auto& [random, io, worker_group, worker] = world;
  random.reseed(input[1]);
  io.advance(10 * window_ms * base::ns_per_ms);
  std::optional<io::SimClient> other;
  if ((flags & shares) != 0) {
    other.emplace(io.connect(server::native_listener));
    send_hello(*other);
    intern_some(*other);
    // An earlier input's faults may keep all receive buffers away for 200 turns.
    for (int count = 0; count < 400 && worker.keys().handles_count() < 2; ++count) {
      run_turns(worker, *other, 1);
    }
    require(worker.keys().handles_count() == 2);
  }
  io::SimClient client =
      io.connect((flags & native) != 0 ? server::native_listener : server::http_listener);
  if ((flags & sends_hello) != 0) send_hello(client);
  if ((flags & http2) != 0) send_preface(client);
  run_turns(worker, client, 4);
  if ((flags & faulty) != 0) io.faults().draw();

  auto bytes = std::as_bytes(input.subspan(2));
  while (!bytes.empty()) {
    const size_t piece = std::min<size_t>(bytes.size(), 1 + random.below(512));
    client.write(bytes.first(piece));
    bytes = bytes.subspan(piece);
    run_turns(worker, client, 2);
    if (random.below(8) == 0) io.advance(window_ms * base::ns_per_ms);
  }
  if ((flags & drains) != 0) worker.begin_drain();
  if ((flags & half_closes) != 0) client.shutdown_write();
  run_turns(worker, client, 8);
  io.faults().calm();
  if ((flags & resets) != 0) client.reset();
  client.close();
  if (other) other->close();
  for (int count = 0; count < 200 && worker.sessions_count() > 0; ++count) {
    io.advance(100 * base::ns_per_ms);
    run_turns(worker, client, 4);
  }
  require(worker.sessions_count() == 0);
  require(worker.tickets_count() == 0);
  require(worker.waiting_frames_count() == 0);
  require(worker.keys().waiters_count() == 0);
  require(worker.keys().handles_count() == 0);
  worker.keys().check_invariants(io.now());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::unique_ptr<World> world;
  if (size < 2) return 0;
  if (world == nullptr) world = std::make_unique<World>();
  run(*world, {data, size});
  // A drained worker accepts no more; and the simulated network remembers every connection.
  static uint32_t served = 0;
  if ((data[0] & drains) != 0 || ++served % 256 == 0) world.reset();
  return 0;
}
