// Measures the key table by itself: finding existing keys, inserting new ones, and the longest time
// of a single insert while the table grows.
// Method: keys of 15 bytes in a random order, hashed before the clock starts. Lookups go in groups
// of 16 and prefetch the next group's cache lines before they search this one, as KeyStore does.
// Reports items (keys) per second.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "bench/micro/keys.hpp"
#include "load/clocks.hpp"
#include "shard/algorithm.hpp"
#include "shard/key_hash.hpp"
#include "shard/key_table.hpp"

namespace sluice::shard {
namespace {

using micro::Keys;

constexpr size_t group_keys = 16;
constexpr uint32_t key_bytes_max = 1'024;
constexpr Window window{.end_ms = 1'000, .approved = 1};

std::vector<KeyHash> hashes_of(const Keys& keys) {
  const HashSecret secret = micro::hash_secret();
  std::vector<KeyHash> hashes(keys.count());
  for (size_t index = 0; index < keys.count(); ++index)
    hashes[index] = hash_key(keys[index], secret);
  return hashes;
}

uint32_t table_keys_max(size_t keys_count) {
  return static_cast<uint32_t>(keys_count + keys_count / 5);
}

bool insert(KeyTable& table, const KeyHash& hash, std::string_view key) {
  const Place place = table.insert(hash, key);
  if (!place) return false;
  WindowCell(place.bucket->cell(place.slot)).set_window(window, 0);
  return true;
}

void fill(KeyTable& table, const Keys& keys, std::span<const KeyHash> hashes) {
  for (size_t index = 0; index < keys.count(); ++index) {
    ASSERT(insert(table, hashes[index], keys[index]));
  }
}

struct FilledTable {
  // The last one is kept: see FilledShard in shard_bench.cpp.
  static FilledTable& with(size_t keys_count) {
    static std::unique_ptr<FilledTable> last;
    if (last == nullptr || last->hashes.size() != keys_count) {
      last.reset();
      last = std::make_unique<FilledTable>(keys_count);
    }
    return *last;
  }

  explicit FilledTable(size_t keys_count) : table(table_keys_max(keys_count), key_bytes_max) {
    const Keys keys(keys_count);
    hashes = hashes_of(keys);
    fill(table, keys, hashes);
    while (table.growing()) table.grow_slice();
    // In another order than that of the inserts.
    std::shuffle(hashes.begin(), hashes.end(), std::mt19937_64(5));
  }

  std::vector<KeyHash> hashes;
  KeyTable table;
};

void prefetch(const KeyTable& table, std::span<const KeyHash> group) {
  for (const KeyHash& hash : group) table.prefetch(hash);
}

uint32_t count_found(const KeyTable& table, std::span<const KeyHash> group) {
  std::array<Place, group_keys> places;
  for (size_t index = 0; index < group.size(); ++index) {
    places[index] = table.find_at_home(group[index]);
  }
  uint32_t found = 0;
  for (size_t index = 0; index < group.size(); ++index) {
    if (places[index].slot == Bucket::slots_count) places[index] = table.find(group[index]);
    found += places[index] ? places[index].bucket->tags[places[index].slot] != 0 : 0;
  }
  return found;
}

// An iteration is one group; the last keys, which fill no group, are left out.
void find_in_groups(benchmark::State& state) {
  const FilledTable& filled = FilledTable::with(static_cast<size_t>(state.range(0)));
  const std::span hashes = filled.hashes;
  const size_t groups_count = hashes.size() / group_keys;
  const auto group_at = [&](size_t group) {
    return hashes.subspan(group * group_keys, group_keys);
  };
  size_t next = 0;
  uint64_t found = 0;
  prefetch(filled.table, group_at(0));
  for (auto _ : state) {
    const size_t group = next;
    next = next + 1 == groups_count ? 0 : next + 1;
    prefetch(filled.table, group_at(next));
    found += count_found(filled.table, group_at(group));
  }
  if (found != state.iterations() * group_keys) state.SkipWithError("not found");
  state.SetItemsProcessed(static_cast<int64_t>(found));
}
BENCHMARK(find_in_groups)->Arg(10'000)->Arg(1'000'000)->Arg(20'000'000);

// One key after the other, without prefetching. Nothing depends on the outcome, so the processor
// searches for several keys at once by itself; when a decision follows, it cannot.
void find_one_by_one(benchmark::State& state) {
  const FilledTable& filled = FilledTable::with(static_cast<size_t>(state.range(0)));
  size_t next = 0;
  uint64_t found = 0;
  for (auto _ : state) {
    found += filled.table.find(filled.hashes[next]) ? 1 : 0;
    if (++next == filled.hashes.size()) next = 0;
  }
  if (found != static_cast<uint64_t>(state.iterations())) state.SkipWithError("not found");
  state.SetItemsProcessed(static_cast<int64_t>(found));
}
BENCHMARK(find_one_by_one)->Arg(10'000)->Arg(1'000'000)->Arg(20'000'000);

// Each iteration fills an empty table, growth included.
void insert_into_empty(benchmark::State& state) {
  const Keys keys(static_cast<size_t>(state.range(0)));
  const std::vector<KeyHash> hashes = hashes_of(keys);
  for (auto _ : state) {
    state.PauseTiming();
    auto table = std::make_unique<KeyTable>(table_keys_max(keys.count()), key_bytes_max);
    state.ResumeTiming();
    fill(*table, keys, hashes);
    state.PauseTiming();
    table.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * keys.count()));
}
BENCHMARK(insert_into_empty)->Arg(10'000)->Arg(1'000'000)->Arg(20'000'000);

// Nanoseconds of every single insert, from the first key on.
std::vector<uint32_t> time_inserts(const Keys& keys, std::span<const KeyHash> hashes,
                                   uint32_t keys_max) {
  KeyTable table(keys_max, key_bytes_max);
  std::vector<uint32_t> times_ns(keys.count());
  uint64_t before_ns = load::now_ns();
  for (size_t index = 0; index < keys.count(); ++index) {
    ASSERT(insert(table, hashes[index], keys[index]));
    const uint64_t after_ns = load::now_ns();
    times_ns[index] = static_cast<uint32_t>(std::min<uint64_t>(after_ns - before_ns, UINT32_MAX));
    before_ns = after_ns;
  }
  return times_ns;
}

double quantile(std::vector<uint32_t>& times_ns, double share) {
  const auto rank = static_cast<ptrdiff_t>(share * static_cast<double>(times_ns.size() - 1));
  std::nth_element(times_ns.begin(), times_ns.begin() + rank, times_ns.end());
  return times_ns[static_cast<size_t>(rank)];
}

// Another program that takes the core makes any insert slow, but hardly the same one in each of
// several runs: the shortest time of every insert counts. The table's own work at that insert, page
// faults included, is in all of its times. `worst_ns` is the longest of any run. Every time
// includes one reading of the clock.
void grow(benchmark::State& state) {
  constexpr size_t runs_count = 5;
  const Keys keys(static_cast<size_t>(state.range(0)));
  const std::vector<KeyHash> hashes = hashes_of(keys);
  std::vector<uint32_t> shortest_ns(keys.count(), UINT32_MAX);
  uint32_t worst_ns = 0;
  for (auto _ : state) {
    for (size_t run = 0; run < runs_count; ++run) {
      const std::vector<uint32_t> times_ns =
          time_inserts(keys, hashes, static_cast<uint32_t>(state.range(1)));
      worst_ns = std::max(worst_ns, std::ranges::max(times_ns));
      std::ranges::transform(shortest_ns, times_ns, shortest_ns.begin(),
                             [](uint32_t a, uint32_t b) { return std::min(a, b); });
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(runs_count * keys.count()));
  state.counters["worst_ns"] = worst_ns;
  const auto longest = std::ranges::max_element(shortest_ns);
  state.counters["max_ns"] = *longest;
  state.counters["max_at_key"] = static_cast<double>(longest - shortest_ns.begin() + 1);
  state.counters["p9999_ns"] = quantile(shortest_ns, 0.9999);
  state.counters["p50_ns"] = quantile(shortest_ns, 0.5);
}
BENCHMARK(grow)
    ->ArgNames({"keys", "keys_max"})
    ->Args({100'000, 10'000'000})
    ->Args({4'000'000, 10'000'000})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::shard

BENCHMARK_MAIN();
