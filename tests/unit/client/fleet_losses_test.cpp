// Goal: what a client of several nodes does with calls of a node that is lost, shuts down or cannot
//       be reached: those that were not sent go to the right node, and what only the owner knows is
//       asked nowhere else.
// Method: as in fleet_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fleet_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// --------------------------------------------------------------------------------- connecting

TEST(FleetLosses, an_owner_that_does_not_say_who_it_is_has_a_second_only) {
  FakeFleet fleet{3};
  fleet.be_silent(1);
  const auto start = std::chrono::steady_clock::now();
  Client client{std::vector{fleet.address(0)}, patient({.connect_timeout = 10s})};
  wait_for_connections(client, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

}  // namespace
}  // namespace sluicegate
