// Measures the cost of hashing a key, by its length: the secret hash of the key table, and the
// routing hash that picks the shard.
// Method: a thousand keys end to end, few enough for the L2 cache, one after the other; hashes do
// not depend on each other, as in a turn. Reports items (keys) and bytes per second.
#include <benchmark/benchmark.h>

#include "bench/micro/keys.hpp"
#include "proto/key_hash.hpp"
#include "shard/key_hash.hpp"

namespace sluice::shard {
namespace {

constexpr size_t keys_count = 1'000;

void count_keys(benchmark::State& state, const micro::Keys& keys) {
  const auto keys_hashed = static_cast<int64_t>(state.iterations() * keys_count);
  state.SetItemsProcessed(keys_hashed);
  state.SetBytesProcessed(keys_hashed * static_cast<int64_t>(keys.key_bytes()));
}

// Flattened like KeyStore::hash.
[[gnu::flatten]] void hash_key(benchmark::State& state) {
  const micro::Keys keys(keys_count, static_cast<size_t>(state.range(0)));
  const HashSecret secret = micro::hash_secret();
  for (auto _ : state) {
    uint64_t sum = 0;
    for (size_t index = 0; index < keys_count; ++index) {
      const KeyHash hash = shard::hash_key(keys[index], secret);
      sum += hash.tag ^ hash.position;
    }
    benchmark::DoNotOptimize(sum);
  }
  count_keys(state, keys);
}
BENCHMARK(hash_key)->Arg(8)->Arg(15)->Arg(32)->Arg(64)->Arg(256);

void routing_hash(benchmark::State& state) {
  const micro::Keys keys(keys_count, static_cast<size_t>(state.range(0)));
  const uint64_t seed = 4;
  for (auto _ : state) {
    uint64_t sum = 0;
    for (size_t index = 0; index < keys_count; ++index) {
      sum += proto::routing_hash(keys[index], seed);
    }
    benchmark::DoNotOptimize(sum);
  }
  count_keys(state, keys);
}
BENCHMARK(routing_hash)->Arg(8)->Arg(15)->Arg(32)->Arg(64)->Arg(256);

}  // namespace
}  // namespace sluice::shard

BENCHMARK_MAIN();
