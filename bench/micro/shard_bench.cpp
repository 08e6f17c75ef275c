// Decisions per second of one shard on one core, and the memory a key takes.
// Method: every key's 15 bytes lie in a random order end to end, as in a receive buffer; a turn of
// 256 entries is filled in and decided. No window ends meanwhile. Reports items (decisions) per
// second and, for the tables it fills, resident bytes per key from /proc/self/statm.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shard/shard.hpp"

namespace sluice::shard {
namespace {

constexpr size_t key_bytes = 15;
constexpr size_t batch_entries = 256;

// Every key once, shuffled: key i is "key" and i in 12 digits.
std::vector<char> shuffled_keys(size_t keys_count) {
  std::vector<uint32_t> order(keys_count);
  for (size_t index = 0; index < keys_count; ++index) order[index] = static_cast<uint32_t>(index);
  std::mt19937_64 random(1);
  for (size_t index = keys_count; index > 1; --index) {
    std::swap(order[index - 1], order[random() % index]);
  }
  std::vector<char> text(keys_count * key_bytes + 1);
  for (size_t index = 0; index < keys_count; ++index) {
    std::snprintf(&text[index * key_bytes], key_bytes + 1, "key%012u", order[index]);
  }
  return text;
}

Options bench_options(size_t keys_count) {
  Options options{.keys_max = static_cast<uint32_t>(keys_count + keys_count / 5),
                  .policy = {.window_ms = 3'600'000, .max_requests = 1'000'000'000}};
  std::mt19937_64 random(2);
  for (std::byte& byte : options.hash_secret) byte = static_cast<std::byte>(random());
  return options;
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

class Turns {
 public:
  explicit Turns(const std::vector<char>& keys)
      : keys_(keys),
        keys_count_(keys.size() / key_bytes),
        entries_(batch_entries),
        verdicts_(batch_entries),
        details_(batch_entries),
        waiters_(batch_entries) {}

  // The next 256 keys, around the end; true when it began anew.
  bool decide(Shard& shard) {
    for (api::Entry& entry : entries_) {
      entry = {.key_data = &keys_[next_ * key_bytes], .key_bytes = key_bytes};
      if (++next_ == keys_count_) next_ = 0;
    }
    shard.decide(entries_, {.verdicts = verdicts_, .details = details_, .waiters = waiters_},
                 {.monotonic_ns = 1'000'000'000, .wall_ns = 0});
    for (const api::Verdict verdict : verdicts_) approved_ += verdict == api::Verdict::approved;
    return next_ < batch_entries;
  }
  uint64_t approved() const { return approved_; }

 private:
  const std::vector<char>& keys_;
  size_t keys_count_;
  size_t next_ = 0;
  uint64_t approved_ = 0;
  std::vector<api::Entry> entries_;
  std::vector<api::Verdict> verdicts_;
  std::vector<api::Detail> details_;
  std::vector<api::WaiterId> waiters_;
};

void decide_existing_keys(benchmark::State& state) {
  const auto keys_count = static_cast<size_t>(state.range(0));
  const std::vector<char> keys = shuffled_keys(keys_count);
  const size_t before_bytes = resident_bytes();
  Shard shard(bench_options(keys_count));
  Turns turns(keys);
  while (!turns.decide(shard)) {
  }
  const size_t table_bytes = resident_bytes() - before_bytes;
  const uint64_t filled = turns.approved();
  for (auto _ : state) turns.decide(shard);
  const auto decided = static_cast<int64_t>(state.iterations() * batch_entries);
  if (turns.approved() - filled != static_cast<uint64_t>(decided)) state.SkipWithError("denied");
  state.SetItemsProcessed(decided);
  state.counters["bytes_per_key"] =
      static_cast<double>(table_bytes) / static_cast<double>(shard.keys_count());
}
BENCHMARK(decide_existing_keys)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000);

// Each iteration fills an empty table, growth included.
void decide_new_keys(benchmark::State& state) {
  const auto keys_count = static_cast<size_t>(state.range(0));
  const std::vector<char> keys = shuffled_keys(keys_count);
  for (auto _ : state) {
    state.PauseTiming();
    auto shard = std::make_unique<Shard>(bench_options(keys_count));
    Turns turns(keys);
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
