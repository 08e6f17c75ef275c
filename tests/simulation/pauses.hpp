// Decides when workers of a run take no turns although they have work: a shard that stands still
// for a while, and a worker that begins its turn long after it was woken.
// Flow:   a run's seed -> Pauses; Run calls begin_step() once a step, and holds() before each turn
//         that a worker would take.
// Shape:  some shards of a run may stand still, at most two and never all; the others never do. So
//         there are clients that ask only shards that never stand still, and these must answer.
// Units:  steps of the run.
// Lives:  one per run. It draws its own numbers, so that a run without pauses draws the same as
//         ever.
#pragma once

#include <cstdint>
#include <vector>

#include "io/sim/random.hpp"

namespace sluice::simulation {

class Pauses {
 public:
  enum class Reason : uint8_t { none, stands_still, woken_late };

  Pauses(uint64_t seed, uint32_t shards_count);

  // Whether shards stand still in this run, at some time.
  bool has_still_shards() const { return still_count_ > 0; }
  bool may_stand_still(uint32_t shard) const { return workers_[shard].may_stand_still; }

  // Shards may begin to stand still.
  void begin_step();
  bool stands_still(uint32_t shard) const {
    return steps_left_ > 0 && workers_[shard].stands_still;
  }
  // The last step in which they do.
  bool is_last_still_step() const { return steps_left_ == 1; }

  // Whether the worker, which has something to do, does not get to it in this step. `slept`: it was
  // asleep before.
  Reason holds(uint32_t shard, bool slept);

 private:
  struct Worker {
    bool may_stand_still = false;
    bool stands_still = false;
    bool is_late = false;  // woken, and `late_steps` are drawn
    uint64_t late_steps = 0;
  };

  void draw_still_shards();
  void begin_standing();

  io::Random random_;
  std::vector<Worker> workers_;
  uint32_t still_count_ = 0;
  double still_rate_ = 0;  // each step
  double late_rate_ = 0;   // each time a worker is woken
  uint64_t late_steps_max_ = 1;
  uint64_t steps_left_ = 0;
};

}  // namespace sluice::simulation
