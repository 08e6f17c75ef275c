// The key table and the handle slots work with another algorithm than the shipped one, without a
// change.
// Method: a leaky bucket with a packing of its own lies in the cells of a table that grows, is
//         decided in place, moves to handle slots and back, and is compared with unpacked buckets.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shard/fixed_window_packing.hpp"
#include "shard/handle_book.hpp"
#include "shard/key_table.hpp"
#include "shard/window_cell.hpp"
#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

// `limit` permits in use at most; one of them is free again every window_ms.
struct LeakyBucket {
  int64_t end_ms = 0;  // when the next one is
  uint32_t approved = 0;
  static constexpr uint32_t denied = 0;  // not counted

  static LeakyBucket starting_at(int64_t now_ns, int64_t window_ms) noexcept {
    return {.end_ms = base::ceil_ms(now_ns) + window_ms};
  }
  static LeakyBucket unused_at(int64_t now_ms) noexcept { return {.end_ms = now_ms}; }
  static LeakyBucket restored(int64_t end_ms, uint32_t approved, uint32_t) noexcept {
    return {.end_ms = end_ms, .approved = approved};
  }

  bool over(int64_t now_ms) const noexcept { return now_ms >= end_ms; }
  int64_t fresh_ms() const noexcept { return expiry_ms(1'000); }
  int64_t expiry_ms(int64_t window_ms) const noexcept { return end_ms + approved * window_ms; }
  bool expired(int64_t now_ms, int64_t window_ms) const noexcept {
    return now_ms >= expiry_ms(window_ms);
  }
  void roll(int64_t now_ms, int64_t window_ms) noexcept {
    for (; over(now_ms); end_ms += window_ms) release(1);
  }
  int64_t begin_ms(int64_t window_ms) const noexcept { return end_ms - window_ms; }
  bool fits(uint32_t cost, uint32_t limit) const noexcept { return approved + cost <= limit; }
  bool take(uint32_t cost, uint32_t limit) noexcept {
    if (!fits(cost, limit)) return false;
    approved += cost;
    return true;
  }
  void deny() noexcept {}
  void release(uint32_t cost) noexcept { approved -= std::min(approved, cost); }
  void restart(int64_t now_ns, int64_t window_ms) noexcept {
    end_ms = base::ceil_ms(now_ns) + window_ms;
  }
  void end_by(int64_t latest_ms) noexcept { end_ms = std::min(end_ms, latest_ms); }
  uint32_t remaining(uint32_t limit) const noexcept { return limit - std::min(limit, approved); }
  int64_t reset_ms(int64_t now_ms, int64_t) const noexcept { return end_ms - now_ms; }
  bool operator==(const LeakyBucket&) const = default;
};

// Word: 63..32 approved, 29..0 end_ms, low bits; tail: 17..0 end_ms, high bits.
struct LeakyPacking {
  using Window = LeakyBucket;
  static constexpr uint32_t denied_max = 0;

  static PackedWindow pack(const Window& window) noexcept {
    const auto end_ms = static_cast<uint64_t>(window.end_ms);
    return {.word = uint64_t{window.approved} << 32 | (end_ms & low_mask),
            .tail = static_cast<uint32_t>(end_ms >> 30)};
  }
  static Window unpack(const PackedWindow& packed) noexcept {
    return {.end_ms = end_ms(packed), .approved = static_cast<uint32_t>(packed.word >> 32)};
  }
  static int64_t end_ms(const PackedWindow& packed) noexcept {
    return static_cast<int64_t>((packed.word & low_mask) | uint64_t{packed.tail} << 30);
  }
  static bool take(uint64_t& word, uint32_t&, uint32_t cost, uint32_t limit) noexcept {
    if ((word >> 32) + cost > limit) return false;
    word += uint64_t{cost} << 32;
    return true;
  }
  static bool deny(uint64_t&, uint32_t&) noexcept { return true; }

 private:
  static constexpr uint64_t low_mask = (1U << 30) - 1;
};

using LeakyCell = BasicWindowCell<LeakyPacking>;
using api::Verdict;

static_assert(WindowPacking<LeakyPacking> && WindowPacking<FixedWindowPacking>);
static_assert(!limiter::WindowAlgorithm<int> && !WindowPacking<LeakyBucket>);

constexpr limiter::Policy policy{.window_ms = 100, .max_requests = 3};
constexpr int64_t first_ms = int64_t{1} << 40;  // both parts of the packed time are used

class SecondAlgorithmTest : public testing::Test {
 protected:
  static std::string name(size_t key) { return "key" + std::to_string(key); }
  static KeyHash hash(size_t key) { return hash_key(name(key), test_secret()); }

  void insert(size_t key) {
    const Place place = table.insert(hash(key), name(key));
    ASSERT_TRUE(place);
    const auto window = LeakyBucket::starting_at(first_ms * base::ns_per_ms, policy.window_ms);
    LeakyCell(place.bucket->cell(place.slot)).set_window(window, policy_of(key));
    model.push_back(window);
  }
  static uint32_t policy_of(size_t key) { return key % KeyCell::policies_count; }

  // As KeyStore: in the bucket, or in the handle slot that it names.
  LeakyCell cell(size_t key) {
    const Place place = table.find(hash(key));
    EXPECT_TRUE(place);
    const KeyCell own = place.bucket->cell(place.slot);
    return LeakyCell(own.has_handle_slot() ? handles.handle_slot(own.handle_slot()) : own);
  }

  void ask_all(int64_t now_ms) {
    for (size_t key = 0; key < model.size(); ++key) {
      const auto cost = static_cast<uint32_t>(1 + key % 2);
      LeakyBucket& expected = model[key];
      expected.roll(now_ms, policy.window_ms);
      const Verdict verdict =
          expected.take(cost, policy.max_requests) ? Verdict::approved : Verdict::denied;
      ASSERT_EQ(decide_in_place(cell(key), policy, cost, false, now_ms), verdict) << key;
      ASSERT_EQ(cell(key).window(), expected) << key;
      ASSERT_EQ(cell(key).policy(), policy_of(key)) << key;
    }
  }

  KeyTable table{10'000, 16};
  HandleBook handles{10'000, 16};
  std::vector<LeakyBucket> model;
};

TEST_F(SecondAlgorithmTest, decides_in_the_cells_of_a_table_that_grows) {
  for (size_t key = 0; !table.growing(); ++key) insert(key);
  ask_all(first_ms);
  table.grow_slice();
  ASSERT_TRUE(table.growing());
  for (int64_t now_ms = first_ms; now_ms < first_ms + 250; now_ms += 70) ask_all(now_ms);
  while (table.growing()) table.grow_slice();
  ask_all(first_ms + 320);
  table.check_invariants();
}

TEST_F(SecondAlgorithmTest, decides_in_handle_slots_and_again_in_the_table) {
  constexpr size_t keys_count = 50;
  for (size_t key = 0; key < keys_count; ++key) insert(key);
  ask_all(first_ms);
  for (size_t key = 0; key < keys_count; key += 3) {
    const Place place = table.find(hash(key));
    KeyCell own = place.bucket->cell(place.slot);
    const api::Handle handle = handles.intern(hash(key), name(key));
    handles.handle_slot(handle).copy(own);
    own.set_handle_slot(handle);
  }
  ask_all(first_ms + 130);
  for (size_t key = 0; key < keys_count; key += 3) {
    const Place place = table.find(hash(key));
    KeyCell own = place.bucket->cell(place.slot);
    ASSERT_TRUE(own.has_handle_slot());
    own.copy(handles.handle_slot(own.handle_slot()));
  }
  ask_all(first_ms + 260);
}

// An expired key, one that waits and one that can never be served are not decided in place.
TEST_F(SecondAlgorithmTest, leaves_the_rest_to_the_store) {
  insert(0);
  EXPECT_EQ(decide_in_place(cell(0), policy, 4, false, first_ms), Verdict::none);
  EXPECT_EQ(decide_in_place(cell(0), policy, 3, false, first_ms), Verdict::approved);
  EXPECT_EQ(decide_in_place(cell(0), policy, 1, true, first_ms), Verdict::none);
  EXPECT_EQ(decide_in_place(cell(0), policy, 1, false, first_ms), Verdict::denied);
  EXPECT_EQ(decide_in_place(cell(0), policy, 1, false, first_ms + 400), Verdict::none);
  EXPECT_EQ(cell(0).window().approved, 3U);
}

}  // namespace
}  // namespace sluice::shard
