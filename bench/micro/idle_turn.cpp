#include "bench/micro/idle_turn.hpp"

#include "base/time.hpp"
#include "server/deciders.hpp"
#include "server/return_poll.hpp"
#include "server/worker.hpp"
#include "server/worker_group.hpp"
#include "tests/support/fake_io.hpp"

// noipa: neither inlined nor cloned, so that the name stays.
extern "C" [[gnu::noipa]] void measured_idle_turns(sluice::server::Worker& worker, size_t count) {
  for (size_t i = 0; i < count; ++i) worker.turn(sluice::base::ns_per_s);
}

namespace sluice::micro {

size_t idle_turns(uint32_t shards_count) {
  constexpr size_t count = 100;
  support::FakeIo io;
  server::WorkerGroup group({.shards = shards_count, .messages = 1, .entries_max = 1});
  server::WorkerOptions options{.sessions = {.shards = shards_count},
                                .shard = {.keys_max = 1'000, .waiters_max = 10},
                                .connections_max = 10,
                                .return_poll_ns = server::return_poll_ns};
  server::Worker worker(io, options, group, server::make_deciders(options));
  worker.start();
  worker.turn(0);
  measured_idle_turns(worker, count);
  return count;
}

}  // namespace sluice::micro
