// Goal: without the system's time zones (tzdata), or with one whose file is gone, a zone is not
//         found; nothing else fails.
// Method: the library's own functions fail (--wrap): its calls to the kernel cannot.
#include <date/tz.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string_view>

#include "limiter/zone.hpp"

namespace {

bool there_are_no_zones = false;
constexpr std::string_view vanished = "Europe/Vanished";  // known to the library, without a file

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker demands these names.
extern "C" const date::tzdb& __real__ZN4date8get_tzdbEv();
extern "C" const date::tzdb& __wrap__ZN4date8get_tzdbEv() {
  if (there_are_no_zones) throw std::runtime_error("no zones");
  return __real__ZN4date8get_tzdbEv();
}

extern "C" const date::time_zone*
__real__ZN4date11locate_zoneESt17basic_string_viewIcSt11char_traitsIcEE(std::string_view name);
extern "C" const date::time_zone*
__wrap__ZN4date11locate_zoneESt17basic_string_viewIcSt11char_traitsIcEE(std::string_view name) {
  if (there_are_no_zones) throw std::runtime_error("no zones");
  return __real__ZN4date11locate_zoneESt17basic_string_viewIcSt11char_traitsIcEE(
      name == vanished ? "Europe/Berlin" : name);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace sluice::limiter {
namespace {

TEST(MissingZones, are_not_found_and_utc_is) {
  there_are_no_zones = true;
  prepare_zones();
  EXPECT_EQ(find_zone("Europe/Berlin"), nullptr);
  EXPECT_NE(find_zone("UTC"), nullptr);
  there_are_no_zones = false;
  EXPECT_NE(find_zone("Europe/Berlin"), nullptr) << "they were installed meanwhile";
}

TEST(MissingZones, a_zone_whose_file_is_gone_is_not_found) {
  EXPECT_EQ(find_zone(vanished), nullptr);
}

}  // namespace
}  // namespace sluice::limiter
