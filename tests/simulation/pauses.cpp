#include "pauses.hpp"

#include "pick.hpp"

namespace sluice::simulation {
namespace {

constexpr uint64_t own_numbers = 0x9A05'E500'0000'0000;  // not those of the run
constexpr double still_share = 0.4;                      // of the runs
constexpr uint64_t still_steps_max = 300;

}  // namespace

Pauses::Pauses(uint64_t seed, uint32_t shards_count)
    : random_(seed ^ own_numbers), workers_(shards_count) {
  if (shards_count == 1) return;
  if (random_.chance(still_share)) draw_still_shards();
  late_rate_ = pick<double, 4>(random_, {0, 0, 0.1, 0.7});
  late_steps_max_ = pick<uint64_t, 3>(random_, {1, 5, 40});
}

void Pauses::draw_still_shards() {
  still_rate_ = pick<double, 2>(random_, {0.003, 0.02});
  still_count_ = workers_.size() > 2 && random_.chance(0.3) ? 2 : 1;
  for (uint32_t drawn = 0; drawn < still_count_;) {
    Worker& worker = workers_[random_.below(workers_.size())];
    drawn += worker.may_stand_still ? 0 : 1;
    worker.may_stand_still = true;
  }
}

void Pauses::begin_step() {
  if (steps_left_ > 0) --steps_left_;
  if (steps_left_ == 0 && has_still_shards() && random_.chance(still_rate_)) begin_standing();
}

// All that may, or one of two.
void Pauses::begin_standing() {
  steps_left_ = 1 + random_.below(still_steps_max);
  const bool all = random_.chance(0.5);
  const uint64_t one = random_.below(still_count_);
  uint64_t index = 0;
  for (Worker& worker : workers_) {
    if (!worker.may_stand_still) continue;
    worker.stands_still = all || index == one;
    ++index;
  }
}

Pauses::Reason Pauses::holds(uint32_t shard, bool slept) {
  Worker& worker = workers_[shard];
  if (stands_still(shard)) return Reason::stands_still;
  if (slept && !worker.is_late) {
    worker.is_late = true;
    const bool is_punctual = !random_.chance(late_rate_);
    worker.late_steps = is_punctual ? 0 : 1 + random_.below(late_steps_max_);
  }
  if (worker.late_steps > 0) {
    --worker.late_steps;
    return Reason::woken_late;
  }
  worker.is_late = false;
  return Reason::none;
}

}  // namespace sluice::simulation
