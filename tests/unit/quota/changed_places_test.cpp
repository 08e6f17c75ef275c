// Goal: every place that changed before a cut is found once, and none that changed since.
// Method: places at the ends of the words that hold their bits.
#include "quota/changed_places.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::quota {
namespace {

// All frozen places, as a cut takes them, in groups of three.
std::vector<uint32_t> take_all(ChangedPlaces& places) {
  std::vector<uint32_t> taken;
  std::array<uint32_t, 3> group;
  while (places.has_frozen()) {
    const size_t found = places.next_frozen(group);
    for (size_t at = 0; at < found; ++at) {
      taken.push_back(group[at]);
      places.remove_frozen(group[at]);
    }
    if (found == 0) break;
  }
  return taken;
}

TEST(ChangedPlaces, a_cut_finds_what_changed_before_it) {
  ChangedPlaces places(200, "a test");
  for (const uint32_t place : {199U, 0U, 63U, 64U, 65U, 128U}) places.add(place);
  EXPECT_FALSE(places.has_frozen());
  places.freeze();
  EXPECT_EQ(places.frozen_count(), 6U);
  EXPECT_FALSE(places.has_live());
  places.add(7);
  EXPECT_EQ(take_all(places), (std::vector<uint32_t>{0, 63, 64, 65, 128, 199}));
  places.freeze();
  EXPECT_EQ(take_all(places), (std::vector<uint32_t>{7}));
  places.freeze();
  EXPECT_EQ(take_all(places), (std::vector<uint32_t>{}));
}

TEST(ChangedPlaces, what_was_removed_is_not_found) {
  ChangedPlaces places(200, "a test");
  for (const uint32_t place : {5U, 70U, 150U}) places.add(place);
  places.remove(70);
  places.freeze();
  places.add(5);
  places.remove_frozen(5);
  EXPECT_EQ(take_all(places), (std::vector<uint32_t>{150}));
  EXPECT_TRUE(places.has_live());
}

TEST(ChangedPlaces, finds_no_more_than_there_is_room_for) {
  ChangedPlaces places(200, "a test");
  for (uint32_t place = 60; place < 70; ++place) places.add(place);
  places.freeze();
  std::array<uint32_t, 4> some{};
  EXPECT_EQ(places.next_frozen(some), 4U);
  EXPECT_EQ(some, (std::array<uint32_t, 4>{60, 61, 62, 63}));
  EXPECT_EQ(places.next_frozen(some), 4U) << "they were not removed";
  EXPECT_EQ(some[0], 60U);
}

}  // namespace
}  // namespace sluice::quota
