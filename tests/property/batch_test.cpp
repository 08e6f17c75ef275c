// A batch has the same answers as its entries one after the other: prefetched data is never stale.
// Method: twin shards with one hash secret, in full and in growing tables, so that keys are
// evicted, made and moved between the entries of a batch; SEED=n repeats a run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "property/seeds.hpp"
#include "shard/key_shard.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;

class Twins {
 public:
  Twins(uint64_t seed, uint32_t keys_max, uint64_t names_count)
      : dice_(seed), names_count_(names_count), options_(drawn_options(keys_max)) {}

  void run(int batches_count) {
    for (int batch = 0; batch < batches_count && !testing::Test::HasFailure(); ++batch) {
      decide();
      now_ns_ += static_cast<int64_t>(dice_.below(60'000'000));
    }
    together_.check_invariants(now());
    ASSERT_EQ(together_.statistics().decisions, apart_.statistics().decisions);
  }
  const Statistics& statistics() const { return together_.statistics(); }

 private:
  Options drawn_options(uint32_t keys_max) {
    Options options{.keys_max = keys_max,
                    .waiters_max = 8,
                    .policy = {.window_ms = 50, .max_requests = 3, .max_requests_in_queue = 2}};
    for (std::byte& byte : options.hash_secret) byte = static_cast<std::byte>(dice_.below(256));
    return options;
  }

  void decide() {
    constexpr api::Overrides given[] = {{.max_requests = 5}, {.window_ms = 20}};
    std::vector<std::string> names(1 + dice_.below(64));
    std::vector<api::Entry> entries;
    for (std::string& name : names) {
      name = "key-" + std::to_string(dice_.below(names_count_));
      entries.push_back({.key_data = name.data(),
                         .cost = 1 + static_cast<uint32_t>(dice_.below(2)),
                         .key_bytes = static_cast<uint16_t>(name.size()),
                         .given_overrides = dice_.percent(3) ? &given[dice_.below(2)] : nullptr});
    }
    std::vector<Verdict> verdicts(names.size());
    std::vector<Verdict> expected(names.size());
    std::vector<api::Detail> details(names.size());
    std::vector<api::WaiterId> waiters(names.size());
    together_.decide(entries, {verdicts, details, waiters}, now());
    for (size_t index = 0; index < entries.size(); ++index) {
      apart_.decide({&entries[index], 1}, {{&expected[index], 1}, details, waiters}, now());
    }
    ASSERT_EQ(verdicts, expected);
  }

  base::Now now() const { return {.monotonic_ns = now_ns_, .wall_ns = 0}; }

  Dice dice_;
  uint64_t names_count_;
  Options options_;
  KeyShard together_{options_};
  KeyShard apart_{options_};
  int64_t now_ns_ = 1'000'000'000;
};

TEST(Batch, is_answered_as_one_by_one_in_a_full_table) {
  uint64_t evicted = 0;
  for (const uint64_t seed : property_seeds(20)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    Twins twins(seed, 12, 30);
    twins.run(1'000);
    evicted += twins.statistics().keys_evicted;
  }
  EXPECT_GT(evicted, 0U);
}

TEST(Batch, is_answered_as_one_by_one_while_the_table_grows) {
  for (const uint64_t seed : property_seeds(3)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    Twins twins(seed, 20'000, 15'000);
    twins.run(1'000);
  }
}

}  // namespace
}  // namespace sluice::shard
