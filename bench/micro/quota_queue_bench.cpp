// Measures queues of quotas with 1,000 and 100,000 waiters: what a call costs that joins one and
// leaves it again, at the end or at any place in it, and how fast a queue is served whose waiters
// one shard has, or two.
// Method: one subject (or one on each shard) with a single slot, which is held. Joins are calls in
// batches of 256, each of an arrival of its own, which are withdrawn in another order. To serve,
// the slot's holder is cancelled: the head gets it, and another call joins at the end. All shards
// share a thread; one item is a call that joined and left, or a waiter that was served.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/quota/sharded_stores.hpp"

namespace sluice::quota {
namespace {

constexpr uint32_t batch_calls = 256;
constexpr int64_t arrival_step_ns = 1'000;

// Stores whose subjects have a slot each, and a queue for it.
class Queue {
 public:
  Queue(uint32_t shards, uint32_t waiters)
      : stores_(shards, {.subjects_max = 10,
                         .reservations_max = 1'000,
                         // A subject has at most as many as are free.
                         .waiters_max = 2 * waiters + 4 * batch_calls,
                         .name_seed = 1,
                         .id_seed = 1}) {
    for (uint32_t shard = 0; shard < shards; ++shard) {
      std::string& name = names_.emplace_back();
      for (int number = 0; name.empty() || stores_.shard_of(name) != shard; ++number) {
        name = "model-" + std::to_string(number);
      }
      put(name);
    }
    StoreTask task = task_of(0);
    stores_.decide(task, now_);
    holder_ = task.batch.answers[0].reservation;
    for (uint32_t waiter = 0; waiter < waiters; ++waiter) join();
  }

  // At the end.
  void join() { join({.ns = arrival_step_ns * ++joined_}); }
  // At a place among those that wait.
  void join_between(std::mt19937_64& random) {
    const auto end = static_cast<uint64_t>(arrival_step_ns * joined_);
    join({.ns = static_cast<int64_t>(random() % end), .number = ++tickets_});
  }
  void withdraw_last(std::mt19937_64& random) {
    std::shuffle(last_.begin(), last_.end(), random);
    for (const auto& [waiter, ticket] : last_) {
      has_failed_ |= !stores_[home()].withdraw(waiter, ticket, now_);
    }
    last_.clear();
    stores_.finish_own(now_);
    stores_[home()].keep_grants(0);
  }
  void forget_last() { last_.clear(); }

  void serve_one() {
    StoreTask task;
    task.batch.calls = {{.op = api::QuotaOp::cancel, .reservation = holder_}};
    stores_.decide(task, now_);
    now_.monotonic_ns += arrival_step_ns;
    stores_.run_due(now_);
    const auto grants = stores_[home()].grants();
    has_failed_ |= grants.size() != 1 || !api::admits(grants[0].code);
    if (has_failed_) return;
    holder_ = grants[0].refund_claim.reservation;
    stores_[home()].keep_grants(0);
    join();
    last_.clear();
  }

  bool has_failed() const { return has_failed_; }

 private:
  static constexpr uint32_t home() { return 0; }

  void put(const std::string& name) {
    StoreTask task;
    task.batch.calls = {{.op = api::QuotaOp::put, .subjects_count = 1}};
    task.batch.subjects = {name};
    task.batch.new_quotas = {{.limits = {{.name = "slots",
                                          .metric = api::Metric::concurrency,
                                          .kind = api::LimitKind::concurrency,
                                          .amount = 1}}}};
    stores_.decide(task, now_);
  }
  StoreTask task_of(api::Ticket ticket) {
    StoreTask task;
    task.batch.calls = {{.flags = ticket == 0 ? uint8_t{0} : api::quota_flag::may_wait,
                         .given_bits = api::given::input_tokens | api::given::output_tokens,
                         .subjects_count = static_cast<uint8_t>(names_.size()),
                         .lifetime_ms = 3'600'000,
                         .ticket = ticket}};
    task.batch.subjects.assign(names_.begin(), names_.end());
    return task;
  }
  void join(const api::Arrival& arrival) {
    const api::Ticket ticket = ++tickets_;
    StoreTask task = task_of(ticket);
    stores_.start(task);
    task.batch.arrival = arrival;
    while (!task.is_decided) stores_.step(task, now_);
    has_failed_ |= task.batch.answers[0].code != api::QuotaCode::queued;
    last_.push_back({task.batch.answers[0].waiter, ticket});
  }

  struct Joined {
    api::WaiterId waiter;
    api::Ticket ticket;
  };
  base::Now now_{.monotonic_ns = base::ns_per_s, .wall_ns = base::ns_per_s};
  ShardedStores stores_;
  std::vector<std::string> names_;
  std::vector<Joined> last_;
  uint64_t holder_ = 0;
  int64_t joined_ = 0;
  api::Ticket tickets_ = 0;
  bool has_failed_ = false;
};

void join_and_leave(benchmark::State& state) {
  const auto shards = static_cast<uint32_t>(state.range(0));
  const bool at_end = state.range(2) != 0;
  Queue queue(shards, static_cast<uint32_t>(state.range(1)));
  queue.forget_last();
  std::mt19937_64 random(1);
  for (auto _ : state) {
    for (uint32_t call = 0; call < batch_calls; ++call) {
      at_end ? queue.join() : queue.join_between(random);
    }
    queue.withdraw_last(random);
  }
  if (queue.has_failed()) state.SkipWithError("a call has not joined, or not left");
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * batch_calls);
}

BENCHMARK(join_and_leave)
    ->ArgNames({"shards", "waiters", "at_end"})
    ->ArgsProduct({{1, 2}, {1'000, 100'000}, {1, 0}});

void serve(benchmark::State& state) {
  Queue queue(static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)));
  queue.forget_last();
  for (auto _ : state) queue.serve_one();
  if (queue.has_failed()) state.SkipWithError("not served");
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

BENCHMARK(serve)->ArgNames({"shards", "waiters"})->ArgsProduct({{1, 2}, {1'000, 100'000}});

}  // namespace
}  // namespace sluice::quota

BENCHMARK_MAIN();
