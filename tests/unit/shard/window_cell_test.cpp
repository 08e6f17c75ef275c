// A cell returns what was put into its packed words, at their extremes.
#include "shard/window_cell.hpp"

#include <gtest/gtest.h>

#include "shard/algorithm.hpp"

namespace sluice::shard {
namespace {

struct Words {
  uint64_t word = 0;
  uint32_t tail = 0;
  WindowCell cell() { return {word, tail}; }
};

TEST(WindowCell, keeps_windows_at_their_extremes) {
  Words words;
  WindowCell cell = words.cell();
  for (const int64_t end_ms :
       {int64_t{0}, int64_t{1}, (int64_t{1} << 33) - 1, int64_t{1} << 33, (int64_t{1} << 41) - 1}) {
    for (const uint32_t approved : {0U, 1U, limits::permits_max}) {
      for (const uint32_t denied : {0U, 1U, WindowCell::denied_max}) {
        const limiter::FixedWindow window{end_ms, approved, denied};
        for (const uint32_t policy : {0U, 1U, WindowCell::policies_count - 1}) {
          cell.set_window(window, policy);
          EXPECT_FALSE(cell.is_indirect());
          EXPECT_EQ(cell.window(), window);
          EXPECT_EQ(cell.policy(), policy);
          cell.set_window({.end_ms = 5});
          EXPECT_EQ(cell.policy(), policy);
        }
      }
    }
  }
}

// In place as FixedWindow does it.
TEST(WindowCell, takes_and_denies_in_place) {
  constexpr uint32_t limit = limits::permits_max;
  for (const uint32_t approved : {0U, limit - 1, limit}) {
    for (const uint32_t denied : {0U, WindowCell::denied_max - 1, WindowCell::denied_max}) {
      limiter::FixedWindow window{(int64_t{1} << 41) - 1, approved, denied};
      Words words;
      WindowCell cell = words.cell();
      cell.set_window(window, 63);
      EXPECT_EQ(cell.end_ms(), window.end_ms);
      for (const uint32_t cost : {1U, 2U, limit}) {
        EXPECT_EQ(cell.take(cost, limit), window.take(cost, limit));
        EXPECT_EQ(cell.window(), window);
      }
      EXPECT_EQ(cell.deny(), denied < WindowCell::denied_max);
      if (denied < WindowCell::denied_max) window.deny();
      EXPECT_EQ(cell.window(), window);
      EXPECT_EQ(cell.policy(), 63U);
    }
  }
}

TEST(WindowCell, keeps_the_index_of_an_indirect_window) {
  Words words;
  WindowCell cell = words.cell();
  cell.set_window({.end_ms = 77, .approved = 5, .denied = 6}, 3);
  EXPECT_FALSE(cell.is_indirect() || cell.has_extra() || cell.has_handle_slot() ||
               cell.is_vacant());
  cell.set_extra(0xFFFF'FFFE);
  EXPECT_TRUE(cell.is_indirect() && cell.has_extra() && !cell.has_handle_slot());
  EXPECT_EQ(cell.extra(), 0xFFFF'FFFEU);
  cell.set_handle_slot(0);
  EXPECT_TRUE(cell.is_indirect() && !cell.has_extra() && cell.has_handle_slot() &&
              !cell.is_vacant());
  EXPECT_EQ(cell.handle_slot(), 0U);
  Words other;
  other.cell().set_window({.end_ms = 78}, 4);
  cell.copy(other.cell());
  EXPECT_FALSE(cell.is_indirect());
  EXPECT_EQ(cell.window().end_ms, 78);
  cell.set_vacant();
  EXPECT_TRUE(cell.is_indirect() && !cell.has_extra() && cell.is_vacant());
}

// An odd count of permits is no sign of a handle slot.
TEST(WindowCell, distinguishes_permits_from_handle_slots) {
  Words words;
  words.cell().set_window({.end_ms = 1, .approved = 1}, 0);
  EXPECT_FALSE(words.cell().has_handle_slot());
}

}  // namespace
}  // namespace sluice::shard
