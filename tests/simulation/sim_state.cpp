#include "sim_state.hpp"

#include <utility>

#include "pick.hpp"

namespace sluice::simulation {
namespace {

constexpr uint64_t cut_cpu_ns_max = 200'000;  // that a worker uses in a turn

server::CutScheduleOptions draw_schedule(io::Random& random, const SimStore& store,
                                         uint32_t shards) {
  return {.shards = shards,
          .interval_ns = pick<int64_t, 3>(random, {10, 100, 1'000}) * base::ns_per_ms,
          .last_epoch = store.last_epoch(),
          .log_bytes_min = pick<uint64_t, 3>(random, {0, 4'096, 1 << 20})};
}

}  // namespace

SimState::SimState(io::Random& random, SimStore& store, io::SimNetwork& network, uint32_t shards,
                   MachineClock machine_time, std::function<void()> wake)
    : random_(random),
      store_(store),
      network_(network),
      machine_time_(std::move(machine_time)),
      wake_(std::move(wake)),
      sink_(random, store, shards,
            {.clock = [&network] { return network.clock(); }, .wake = wake_}),
      schedule_(sink_, draw_schedule(random, store, shards)),
      has_cpu_time_(random.chance(0.5)) {
  store_.draw_failures();
}

server::StateOptions SimState::options() {
  return {.schedule = &schedule_,
          .source = store_.is_empty() ? nullptr : &store_,
          .stored_shards = store_.shards_count(),
          .machine_time = [this] { return machine_time_(network_.clock()); },
          .cpu_ns = [this] { return cpu_ns(); }};
}

int64_t SimState::cpu_ns() {
  if (has_cpu_time_) cpu_ns_ += static_cast<int64_t>(random_.below(cut_cpu_ns_max));
  return cpu_ns_;
}

void SimState::calm() {
  store_.calm();
  sink_.calm();
}

bool SimState::finish() {
  if (last_epoch_ == 0) {
    last_epoch_ = schedule_.epoch() + 1;
    schedule_.want(last_epoch_);
    wake_();
  }
  return schedule_.statistics().is_durable(last_epoch_);
}

}  // namespace sluice::simulation
