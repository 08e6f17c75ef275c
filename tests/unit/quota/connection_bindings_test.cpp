// Goal: when a connection ends, just its open reservations are to expire, those of the connection
// that ended first before the others'.
// Method: reservations of three connections, bound, unbound and expired by hand.
#include "quota/connection_bindings.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sluice::quota {
namespace {

class ConnectionBindingsTest : public testing::Test {
 protected:
  ConnectionBindingsTest() {
    for (Reservation& reservation : made_) {
      reservation.state = api::ReservationState::open;
    }
  }
  // All reservations that are to expire, in their order, by their places in made_.
  std::vector<long> expired() {
    std::vector<long> places;
    while (Reservation* const next = bindings_.next_to_expire()) {
      places.push_back(next - made_.data());
      bindings_.unbind(*next);
      bindings_.check_invariants();
    }
    return places;
  }

  std::array<Reservation, 4> made_{Reservation(0), Reservation(1), Reservation(2), Reservation(3)};
  ConnectionBindings bindings_{4};
};

TEST_F(ConnectionBindingsTest, nothing_expires_while_connections_last) {
  bindings_.bind(made_[0], 7);
  EXPECT_TRUE(made_[0].is_connection_bound());
  EXPECT_EQ(bindings_.next_to_expire(), nullptr);
  EXPECT_FALSE(bindings_.has_any_to_expire());
  EXPECT_FALSE(bindings_.end(8));  // has none
  EXPECT_FALSE(bindings_.has_any_to_expire());
}

TEST_F(ConnectionBindingsTest, those_of_the_connection_that_ended_expire) {
  bindings_.bind(made_[0], 7);
  bindings_.bind(made_[1], 8);
  bindings_.bind(made_[2], 7);
  bindings_.check_invariants();
  bindings_.end(7);
  EXPECT_EQ(expired(), (std::vector<long>{0, 2}));
  EXPECT_FALSE(bindings_.has_any_to_expire());
}

TEST_F(ConnectionBindingsTest, the_connection_that_ended_first_comes_first) {
  bindings_.bind(made_[0], 7);
  bindings_.bind(made_[1], 8);
  bindings_.end(8);
  bindings_.end(7);
  EXPECT_TRUE(bindings_.end(8));  // once more changes nothing
  EXPECT_EQ(expired(), (std::vector<long>{1, 0}));
}

TEST_F(ConnectionBindingsTest, one_that_ended_by_itself_does_not_expire) {
  bindings_.bind(made_[0], 7);
  bindings_.bind(made_[1], 7);
  bindings_.unbind(made_[0]);
  bindings_.end(7);
  EXPECT_EQ(expired(), (std::vector<long>{1}));
}

TEST_F(ConnectionBindingsTest, one_that_is_bound_while_its_connection_ends_expires_too) {
  bindings_.bind(made_[0], 7);
  bindings_.end(7);
  bindings_.bind(made_[1], 7);
  EXPECT_EQ(expired(), (std::vector<long>{0, 1}));
  bindings_.bind(made_[2], 7);  // the end is over: as another connection
  EXPECT_FALSE(bindings_.has_any_to_expire());
}

}  // namespace
}  // namespace sluice::quota
