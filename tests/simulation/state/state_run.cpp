#include "state_run.hpp"

#include <algorithm>
#include <optional>

#include "../pick.hpp"
#include "state/state_clock.hpp"
#include "state_life.hpp"
#include "unit/quota/sharded_stores.hpp"

namespace sluice::simulation {
namespace {

constexpr uint64_t starts_min = 2;
constexpr uint64_t starts_drawn = 5;
constexpr uint64_t turns_max = 1'500;
constexpr double checked_share = 0.1;  // of the commits

// The machine, over its boots.
struct Machine {
  uint64_t boot = 1;
  int64_t boot_ns = 1'000 * base::ns_per_s;
  int64_t wall_ns = 1'750'000'000 * base::ns_per_s;

  state::MachineTime time() const {
    return {.boot = {.high = boot}, .boot_ns = boot_ns, .wall_ns = wall_ns};
  }
};

class StateRun {
 public:
  explicit StateRun(uint64_t seed) : random_(seed), books_(random_), store_(random_) {}

  StateRunResult play() {
    for (uint64_t left = starts_min + random_.below(starts_drawn); left > 0 && !failure_; --left) {
      live();
    }
    result_.failure = failure_.text();
    result_.calls = world_.calls;
    result_.compared = check_.compared();
    result_.incomplete = check_.incomplete();
    result_.of_several_subjects = check_.of_several_subjects();
    result_.came_apart = check_.came_apart();
    result_.events = world_.events;
    result_.events[static_cast<uint32_t>(StateEvent::kept)] = 1;
    result_.events[static_cast<uint32_t>(StateEvent::committed)] = store_.commits();
    result_.events[static_cast<uint32_t>(StateEvent::failed)] = store_.failures();
    return result_;
  }

 private:
  void live();
  void pass_time();
  void check_clock(const state::StateStart& start);
  void check_load(uint32_t shards, base::Now now);
  void on_commit(base::Now now);
  StateCopy compare(uint32_t shards, base::Now now);
  StateCopy load(quota::ShardedStores& stores, base::Now now);
  StateCopy copy_all(quota::ShardedStores& stores, base::Now now);
  void check_quotas(const StateCopy& loaded);

  io::Random random_;
  Failure failure_;
  StateBooks books_;
  SimStore store_;
  StateWorld world_{.random = random_, .failure = failure_, .books = books_};
  StateCheck check_{books_, failure_};
  CopiesByEpoch copies_;
  Machine machine_;
  // At the present start.
  uint64_t loaded_count_ = 0;   // reservations
  uint64_t lasting_count_ = 0;  // of them, not overdue
  StateRunResult result_;
  std::optional<int64_t> expected_ns_;  // state time: the machine's clock says so
};

void StateRun::live() {
  ++result_.starts;
  const auto shards = pick<uint32_t, 6>(random_, {1, 2, 2, 3, 5, 8});
  const state::StateStart start =
      state::start_state_clock(store_.last_time(), machine_.time(), machine_.boot_ns);
  const base::Now now{.monotonic_ns = start.state_ns, .wall_ns = machine_.wall_ns};
  check_clock(start);
  if (store_.is_empty()) {
    copies_.clear();
    loaded_count_ = lasting_count_ = 0;
  } else {
    check_load(shards, now);
  }
  if (failure_) return;
  const auto machine_time = [boot = machine_.time(), now](base::Now later) {
    state::MachineTime time = boot;
    time.boot_ns += later.monotonic_ns - now.monotonic_ns;
    time.wall_ns = later.wall_ns;
    return time;
  };
  StateLife life(world_, store_, copies_,
                 {.shards = shards,
                  .start = now,
                  .machine_time = machine_time,
                  .id_seed = random_.next(),
                  .on_commit = [this](base::Now at) { on_commit(at); }});
  // Some that are overdue end before the first turn.
  const uint64_t count = life.reservations_count();
  if (count > loaded_count_ || count < lasting_count_) {
    failure_.report("the workers have loaded " + std::to_string(count) + " reservations of " +
                    std::to_string(loaded_count_));
  }
  life.play(random_.below(random_.chance(0.2) ? 50 : turns_max));
  if (random_.chance(0.2)) life.finish();
  life.crash();
  machine_.boot_ns += life.now().monotonic_ns - now.monotonic_ns;
  machine_.wall_ns = life.now().wall_ns;
  expected_ns_ = life.now().monotonic_ns;
  store_.open_again();
  pass_time();
}

// The machine may boot, and its wall clock be set.
void StateRun::pass_time() {
  const int64_t down_ns = pick<int64_t, 4>(random_, {0, 50, 3'000, 4'000'000}) * base::ns_per_ms;
  machine_.boot_ns += down_ns;
  machine_.wall_ns += down_ns;
  if (expected_ns_) *expected_ns_ += down_ns;
  if (random_.chance(0.3)) {
    ++machine_.boot;
    machine_.boot_ns = random_.between(1, 100) * base::ns_per_s;
    expected_ns_.reset();
  }
  if (random_.chance(0.2)) {
    machine_.wall_ns -= random_.between(0, 10'000) * base::ns_per_s;
    ++result_.clocks_back;
  }
}

// State time never goes back, and goes on as the machine's clock does while that is the same.
void StateRun::check_clock(const state::StateStart& start) {
  const auto last = store_.last_time();
  if (!last) return;
  if (start.state_ns < last->state_ns) failure_.report("state time goes back");
  const bool is_same_boot = last->machine.boot == machine_.time().boot;
  if (expected_ns_ && is_same_boot && start.state_ns != *expected_ns_) {
    failure_.report("state time is not what the machine's clock says");
  }
}

// The next start.
void StateRun::check_load(uint32_t shards, base::Now now) {
  const CutCopies cut = copies_[store_.last_epoch()];
  ++result_.loads;
  if (shards != store_.shards_count()) ++result_.other_shards;
  const StateCopy loaded = compare(shards, now);
  if (failure_) return;
  for (const auto& [name, subject] : loaded.subjects) {
    books_.history(name).is_now(subject.limits.at("mark").amount);
  }
  result_.reservations += loaded.reservations.size();
  loaded_count_ = loaded.reservations.size();
  copies_.clear();
  // Should no further cut become durable.
  copies_[store_.last_epoch()] = cut;
}

// What a crash would leave now.
void StateRun::on_commit(base::Now now) {
  if (!random_.chance(checked_share)) return;
  compare(store_.shards_count(), now);
  copies_.erase(copies_.begin(), copies_.find(store_.last_epoch()));
}

StateCopy StateRun::compare(uint32_t shards, base::Now now) {
  const CutCopies& cut = copies_[store_.last_epoch()];
  if (cut.size() != store_.shards_count()) {
    failure_.report("a durable epoch lacks a shard's cut");
    return {};
  }
  quota::ShardedStores stores(shards, StateLife::store_options(1));
  const StateCopy loaded = load(stores, now);
  if (failure_) return {};
  check_.compare(cut, loaded, shards != store_.shards_count());
  check_quotas(loaded);
  return loaded;
}

StateCopy StateRun::load(quota::ShardedStores& stores, base::Now now) {
  policy::QuotaBook book(books_.rules());
  quota::Restored restored;
  for (uint32_t shard = 0; shard < stores.count(); ++shard) {
    const quota::Restored one = store_.restore(stores[shard], now);
    if (!one.damage.empty()) failure_.report("the state cannot be loaded: " + one.damage);
    restored += one;
    stores[shard].adopt(book, now);
  }
  if (restored.subjects_left_out + restored.reservations_left_out > 0) {
    failure_.report("not everything was loaded");
  }
  result_.parts_refunded += restored.parts_refunded;
  StateCopy copy = copy_all(stores, now);
  stores.run_due(now);
  stores.check_invariants(now);
  lasting_count_ = 0;
  for (uint32_t shard = 0; shard < stores.count(); ++shard) {
    lasting_count_ += stores[shard].reservations_count();
  }
  return copy;
}

StateCopy StateRun::copy_all(quota::ShardedStores& stores, base::Now now) {
  StateCopy copy{.at = now, .shards = stores.count()};
  for (const std::string& name : books_.subjects()) {
    quota::StoreTask task;
    task.batch.calls = {{.op = api::QuotaOp::usage, .subjects_count = 1}};
    task.batch.subjects = {name};
    stores.decide(task, now);
    add_subjects(copy, task.batch);
  }
  for (uint32_t shard = 0; shard < stores.count(); ++shard) {
    uint64_t cursor = 0;
    do {
      quota::StoreTask task;
      task.batch.calls = {holders_call(static_cast<api::ShardId>(shard), cursor)};
      stores.decide(task, now);
      cursor = add_holders(copy, task.batch, now);
    } while (cursor != 0);
  }
  return copy;
}

// A change that was answered as durable is there, unless a later one is.
void StateRun::check_quotas(const StateCopy& loaded) {
  for (const auto& [name, subject] : loaded.subjects) {
    const uint64_t mark = subject.limits.at("mark").amount;
    QuotaHistory& history = books_.history(name);
    if (!history.may_be(mark)) failure_.report("a durable change of " + name + " is lost");
  }
}

}  // namespace

StateRunResult& StateRunResult::operator+=(const StateRunResult& other) {
  starts += other.starts;
  loads += other.loads;
  other_shards += other.other_shards;
  clocks_back += other.clocks_back;
  calls += other.calls;
  reservations += other.reservations;
  parts_refunded += other.parts_refunded;
  compared += other.compared;
  incomplete += other.incomplete;
  of_several_subjects += other.of_several_subjects;
  came_apart += other.came_apart;
  for (size_t at = 0; at < events.size(); ++at) events[at] += other.events[at];
  return *this;
}

StateRunResult simulate_state(uint64_t seed) {
  return StateRun(seed).play();
}

}  // namespace sluice::simulation
