// Measures decisions per second of one shard on one core, and the memory of a key: rung R0, the
// shard in process, without sockets or frames.
// Method: the keys of 15 bytes are in random order end to end, as in a receive buffer; the
// benchmark fills turns of 256 entries and decides them. No window ends meanwhile. Reports items
// (decisions) per second and, for the tables it fills, resident bytes per key from
// /proc/self/statm.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "bench/micro/keys.hpp"
#include "shard/key_shard.hpp"

namespace sluice::shard {
namespace {

using micro::Keys;

constexpr size_t batch_entries = 256;
constexpr uint32_t key_permits = 1'000'000'000;
// One entry of this cost leaves no room for a second one in the same window, but for half a billion
// entries of cost 1.
constexpr uint32_t denied_cost = key_permits / 2 + 1;

Options bench_options(size_t keys_count) {
  return {.keys_max = static_cast<uint32_t>(keys_count + keys_count / 5),
          .handles_max = static_cast<uint32_t>(keys_count),
          .policy = {.window_ms = 3'600'000, .max_requests = key_permits},
          .hash_secret = micro::hash_secret()};
}

size_t resident_bytes() {
  size_t pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    size_t total = 0;
    if (std::fscanf(file, "%zu %zu", &total, &pages) != 2) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Costs in an order that a branch predictor cannot learn; their number and that of the keys are
// coprime, so every key meets every cost.
std::vector<uint32_t> half_denied_costs() {
  std::vector<uint32_t> costs((size_t{1} << 20) + 7);
  std::mt19937_64 random(3);
  for (uint32_t& cost : costs) cost = random() % 2 == 0 ? 1 : denied_cost;
  return costs;
}

class Turns {
 public:
  // Entries take the costs in rotation, whatever their key.
  Turns(const Keys& keys, std::vector<uint32_t> costs)
      : keys_(keys),
        costs_(std::move(costs)),
        entries_(batch_entries),
        verdicts_(batch_entries),
        details_(batch_entries),
        waiters_(batch_entries) {}

  // Fills in the next 256 keys, cyclically; true when it started again from the first.
  bool decide(KeyShard& shard) {
    for (api::Entry& entry : entries_) {
      entry = {.key_data = keys_.data(next_key_),
               .cost = costs_[next_cost_],
               .key_bytes = micro::key_bytes_typical};
      if (++next_key_ == keys_.count()) next_key_ = 0;
      if (++next_cost_ == costs_.size()) next_cost_ = 0;
    }
    shard.decide(entries_, {.verdicts = verdicts_, .details = details_, .waiters = waiters_},
                 {.monotonic_ns = 1'000'000'000, .wall_ns = 0});
    for (const api::Verdict verdict : verdicts_) {
      approved_ += verdict == api::Verdict::approved;
      denied_ += verdict == api::Verdict::denied;
    }
    return next_key_ < batch_entries;
  }

  uint64_t approved() const { return approved_; }
  uint64_t denied() const { return denied_; }

 private:
  const Keys& keys_;
  const std::vector<uint32_t> costs_;
  size_t next_key_ = 0;
  size_t next_cost_ = 0;
  uint64_t approved_ = 0;
  uint64_t denied_ = 0;
  std::vector<api::Entry> entries_;
  std::vector<api::Verdict> verdicts_;
  std::vector<api::Detail> details_;
  std::vector<api::WaiterId> waiters_;
};

// A shard that has decided each of its keys once, at the cost that it denies from then on.
class FilledShard {
 public:
  // Kept for the next caller with the same size: Google Benchmark calls a function several times,
  // and filling a large table takes longer than measuring it.
  static FilledShard& with(size_t keys_count) {
    static std::unique_ptr<FilledShard> last;
    if (last == nullptr || last->keys.count() != keys_count) {
      last.reset();  // two large ones might not fit into memory
      last = std::make_unique<FilledShard>(keys_count);
    }
    return *last;
  }

  explicit FilledShard(size_t keys_count) : keys(keys_count) {
    const size_t before_bytes = resident_bytes();
    shard = std::make_unique<KeyShard>(bench_options(keys_count));
    Turns turns(keys, {denied_cost});
    while (!turns.decide(*shard)) {
    }
    bytes_per_key = static_cast<double>(resident_bytes() - before_bytes) /
                    static_cast<double>(shard->keys_count());
  }

  const Keys keys;
  std::unique_ptr<KeyShard> shard;
  double bytes_per_key;
};

// Returns the share that was denied.
double decide_filled(benchmark::State& state, std::vector<uint32_t> costs) {
  FilledShard& filled = FilledShard::with(static_cast<size_t>(state.range(0)));
  Turns turns(filled.keys, std::move(costs));
  for (auto _ : state) turns.decide(*filled.shard);
  const auto decided = static_cast<int64_t>(state.iterations() * batch_entries);
  if (turns.approved() + turns.denied() != static_cast<uint64_t>(decided)) {
    state.SkipWithError("neither approved nor denied");
  }
  state.SetItemsProcessed(decided);
  state.counters["bytes_per_key"] = filled.bytes_per_key;
  return static_cast<double>(turns.denied()) / static_cast<double>(decided);
}

void decide_existing_keys(benchmark::State& state) {
  if (decide_filled(state, {1}) != 0) state.SkipWithError("denied");
}
BENCHMARK(decide_existing_keys)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000)->Arg(20'000'000);

// The denied entries are random: the cost of a decision that the processor cannot predict.
void decide_half_denied(benchmark::State& state) {
  state.counters["denied_share"] = decide_filled(state, half_denied_costs());
}
BENCHMARK(decide_half_denied)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000)->Arg(20'000'000);

// The same keys by handle, in another random order; each has its handle slot.
void decide_by_handle(benchmark::State& state) {
  FilledShard& filled = FilledShard::with(static_cast<size_t>(state.range(0)));
  std::vector<api::Handle> handles;
  for (size_t index = 0; index < filled.keys.count(); ++index) {
    handles.push_back(filled.shard->intern(filled.keys[index]));
  }
  std::shuffle(handles.begin(), handles.end(), std::mt19937_64(4));
  std::vector<api::Verdict> verdicts(batch_entries);
  constexpr base::Now now{.monotonic_ns = 1'000'000'000, .wall_ns = 0};
  size_t next = 0;
  const auto decide = [&] {
    if (next + batch_entries > handles.size()) next = 0;
    filled.shard->decide(std::span(handles).subspan(next, batch_entries), verdicts, now);
    next += batch_entries;
  };
  do decide();
  while (next + batch_entries <= handles.size());
  for (auto _ : state) decide();
  for (const api::Handle handle : handles) filled.shard->drop_handle_reference(handle);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * batch_entries));
}
BENCHMARK(decide_by_handle)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000)->Arg(20'000'000);

// Each iteration fills an empty table, growth included.
void decide_new_keys(benchmark::State& state) {
  const auto keys_count = static_cast<size_t>(state.range(0));
  const Keys keys(keys_count);
  for (auto _ : state) {
    state.PauseTiming();
    auto shard = std::make_unique<KeyShard>(bench_options(keys_count));
    Turns turns(keys, {1});
    state.ResumeTiming();
    while (!turns.decide(*shard)) {
    }
    state.PauseTiming();
    shard.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * keys_count));
}
BENCHMARK(decide_new_keys)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000);

}  // namespace
}  // namespace sluice::shard

BENCHMARK_MAIN();
