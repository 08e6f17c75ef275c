// Goal: an id leads to its reservation or its waiter, and never to another's.
// Method: ids that share the part that the index knows, of reservations and waiters with the same
// numbers.
#include "quota/client_ids.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sluice::quota {
namespace {

class ClientIdsTest : public testing::Test {
 protected:
  std::optional<ClientIds::Entry> find(const NameHash& id) const {
    return ids_.find(id, [this](ClientIds::Entry entry) -> const NameHash& {
      return entry.is_waiter ? of_waiters_[entry.index] : of_reservations_[entry.index];
    });
  }
  static NameHash id(uint64_t high) { return {.low = 7, .high = high}; }

  ClientIds ids_{4, 4};
  std::array<NameHash, 4> of_reservations_{id(0), id(1), id(2), id(3)};
  std::array<NameHash, 4> of_waiters_{id(10), id(11), id(12), id(13)};
};

TEST_F(ClientIdsTest, distinguish_reservations_from_waiters) {
  ids_.add(id(2), {.index = 2});
  ids_.add(id(12), {.index = 2, .is_waiter = true});
  ASSERT_TRUE(find(id(2)) && find(id(12)));
  EXPECT_EQ(find(id(2))->index, 2U);
  EXPECT_FALSE(find(id(2))->is_waiter);
  EXPECT_EQ(find(id(12))->index, 2U);
  EXPECT_TRUE(find(id(12))->is_waiter);
}

TEST_F(ClientIdsTest, know_no_id_that_was_not_added_or_is_removed) {
  ids_.add(id(1), {.index = 1});
  EXPECT_FALSE(find(id(2)));
  ids_.remove(id(1), {.index = 1});
  EXPECT_FALSE(find(id(1)));
}

TEST_F(ClientIdsTest, an_id_goes_over_from_a_waiter_to_its_reservation) {
  of_reservations_[0] = id(13);
  ids_.add(id(13), {.index = 3, .is_waiter = true});
  ids_.remove(id(13), {.index = 3, .is_waiter = true});
  ids_.add(id(13), {.index = 0});
  ASSERT_TRUE(find(id(13)));
  EXPECT_FALSE(find(id(13))->is_waiter);
}

}  // namespace
}  // namespace sluice::quota
