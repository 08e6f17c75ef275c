// Goal:   records become parts of one kind, and those of windows only when there is one.
// Method: windows written and read again. What PartBuilder does with an arena is in its own test.
#include "state/part_arena.hpp"

#include <gtest/gtest.h>

#include <string>

#include "state/part_reader.hpp"
#include "state/window_parts.hpp"
#include "unit/state/samples.hpp"

namespace sluice::state {
namespace {

TEST(PartArena, has_room_for_headers_beside_the_records) {
  EXPECT_EQ(part_arena_bytes(0), 2 * PartHeader::bytes);
  EXPECT_EQ(part_arena_bytes(2 * full_part_bytes), 2 * full_part_bytes + 4 * PartHeader::bytes);
}

TEST(PartArena, is_finished_until_it_is_cleared) {
  PartArena arena(part_arena_bytes(1'000), "a test");
  EXPECT_FALSE(arena.is_finished());
  arena.add(GoneReservation{.id = 8});
  arena.finish(sample_header());
  EXPECT_TRUE(arena.is_finished());
  arena.clear();
  EXPECT_FALSE(arena.is_finished());
}

TEST(WindowParts, hold_every_window_once) {
  WindowParts parts(3, 30);
  for (const char* key : {"a", "b", "c"}) {
    WindowRecord window = sample_window();
    window.key = key;
    parts.append(window);
  }
  EXPECT_EQ(parts.records_count(), 3U);
  parts.finish(sample_header());
  ASSERT_EQ(parts.parts().size(), 1U);
  auto reader = PartReader::open(parts.parts()[0]).value();
  std::string keys;
  while (const auto record = reader.next()) keys += std::get<WindowRecord>(*record).key;
  EXPECT_EQ(keys, "abc");
  EXPECT_FALSE(reader.damage());
  parts.clear();
  EXPECT_TRUE(parts.parts().empty());
  EXPECT_EQ(parts.records_count(), 0U);
}

TEST(WindowParts, are_none_without_a_window) {
  WindowParts parts(3, 30);
  parts.finish(sample_header());
  EXPECT_TRUE(parts.parts().empty());
  EXPECT_GT(parts.reserved_bytes(), 0U);
}

}  // namespace
}  // namespace sluice::state
