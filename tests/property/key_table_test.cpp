// A key table holds the same as a std::unordered_map, also while it grows and keys come and go; and
// a walk by pages reports every lasting key exactly once meanwhile.
// Method: random inserts, finds and erases; SEED=n repeats a run.
#include "shard/key_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "property/seeds.hpp"
#include "shard/algorithm.hpp"
#include "shard/key_shard.hpp"

namespace sluice::shard {
namespace {

HashSecret drawn_secret(Dice& dice) {
  HashSecret secret;
  for (std::byte& byte : secret) byte = static_cast<std::byte>(dice.below(256));
  return secret;
}

// The approved count of each key stands for its state.
class TableComparison {
 public:
  TableComparison(uint64_t seed, uint32_t keys_max, uint64_t names_count)
      : dice_(seed),
        secret_(drawn_secret(dice_)),
        table_(keys_max, 255),
        keys_max_(keys_max),
        names_count_(names_count) {}

  void run(int operations_count) {
    // Phases that grow and phases that shrink the table.
    for (int step = 0; step < operations_count && !testing::Test::HasFailure(); ++step) {
      const bool growing_phase = step / 8'192 % 3 != 2;
      const std::string name =
          std::string(dice_.below(3), 'x') + std::to_string(dice_.below(names_count_));
      if (dice_.percent(growing_phase ? 25 : 75)) {
        erase(name);
      } else {
        find_or_insert(name);
      }
      if (dice_.below(64) == 0) table_.grow_slice();
      saw_growing_ |= table_.growing();
      if (step % 8'192 == 0) check_all();
    }
    check_all();
  }
  bool saw_growing() const { return saw_growing_; }

 private:
  void find_or_insert(const std::string& name) {
    const KeyHash hash = hash_key(name, secret_);
    const auto expected = model_.find(name);
    Place place = table_.find(hash);
    ASSERT_EQ(static_cast<bool>(place), expected != model_.end());
    if (place) {
      ASSERT_EQ(WindowCell(place.bucket->cell(place.slot)).window().approved, expected->second);
    } else {
      place = table_.insert(hash, name);
      ASSERT_EQ(static_cast<bool>(place), model_.size() < keys_max_);
      if (!place) return;
    }
    const auto state = static_cast<uint32_t>(dice_.below(1'000'000'000));
    WindowCell(place.bucket->cell(place.slot))
        .set_window({.end_ms = state * 1'000LL, .approved = state});
    model_[name] = state;
    ASSERT_EQ(table_.text(place), name);
    ASSERT_EQ(table_.hash(place), hash);
  }

  void erase(const std::string& name) {
    const Place place = table_.find(hash_key(name, secret_));
    ASSERT_EQ(static_cast<bool>(place), model_.erase(name) == 1);
    if (place) table_.erase(place);
  }

  void check_all() {
    table_.check_invariants();
    ASSERT_EQ(table_.keys_count(), model_.size());
    for (const auto& [name, state] : model_) {
      const Place place = table_.find(hash_key(name, secret_));
      ASSERT_TRUE(place);
      ASSERT_EQ(WindowCell(place.bucket->cell(place.slot)).window().approved, state);
    }
  }

  Dice dice_;
  HashSecret secret_;
  KeyTable table_;
  uint32_t keys_max_;
  uint64_t names_count_;
  bool saw_growing_ = false;
  std::unordered_map<std::string, uint32_t> model_;
};

TEST(KeyTableProperty, holds_what_a_map_holds) {
  for (const uint64_t seed : property_seeds(3)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    TableComparison comparison(seed, 40'000, 60'000);
    comparison.run(120'000);
    EXPECT_TRUE(comparison.saw_growing());
  }
}

TEST(KeyTableProperty, holds_what_a_map_holds_when_tiny_and_full) {
  for (const uint64_t seed : property_seeds(40)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    TableComparison comparison(seed, 1 + static_cast<uint32_t>(seed % 40), 60);
    comparison.run(6'000);
  }
}

class Walk {
 public:
  explicit Walk(uint64_t seed)
      : dice_(seed),
        shard_({.keys_max = 60'000,
                .waiters_max = 10,
                .key_bytes_max = 64,
                .policy = {.window_ms = 1'000'000},
                .hash_secret = drawn_secret(dice_)}) {}

  // Asks for keys [first, end).
  void touch(uint32_t first, uint32_t end) {
    for (uint32_t number = first; number < end; ++number) {
      const std::string name = std::to_string(number);
      const api::Entry entry{.key_data = name.data(),
                             .key_bytes = static_cast<uint16_t>(name.size())};
      api::Verdict verdict = api::Verdict::none;
      api::Detail detail;
      api::WaiterId waiter;
      shard_.decide({&entry, 1}, {{&verdict, 1}, {&detail, 1}, {&waiter, 1}}, now_);
      ASSERT_EQ(verdict, api::Verdict::approved);
    }
  }

  // One walk, while `added` more keys come in between the pages.
  void run(uint32_t lasting, uint32_t added) {
    touch(0, lasting);
    std::set<std::string> reported;
    uint64_t cursor = 0;
    uint32_t next = lasting;
    do {
      const Page page = shard_.page(cursor, 1 + static_cast<uint32_t>(dice_.below(300)), now_);
      for (const api::KeyState& state : page.keys) {
        ASSERT_TRUE(reported.emplace(state.key).second) << state.key << " was reported twice";
      }
      cursor = page.next_cursor;
      const uint32_t more =
          std::min(next + static_cast<uint32_t>(dice_.below(200)), lasting + added);
      touch(next, more);
      next = more;
      shard_.run_due(now_);
    } while (cursor != 0);
    for (uint32_t number = 0; number < lasting; ++number) {
      ASSERT_TRUE(reported.contains(std::to_string(number))) << number << " was not reported";
    }
    shard_.check_invariants(now_);
  }

 private:
  Dice dice_;
  KeyShard shard_;
  base::Now now_{.monotonic_ns = 1'000'000'000, .wall_ns = 0};
};

TEST(PageProperty, walk_reports_each_lasting_key_once_while_the_table_grows) {
  for (const uint64_t seed : property_seeds(6)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    Dice dice(seed);
    Walk walk(seed);
    walk.run(2'000 + static_cast<uint32_t>(dice.below(8'000)), 30'000);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::shard
