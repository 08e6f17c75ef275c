// Goal: a name is read as it was kept, until it is dropped.
// Method: names of all lengths side by side, and more of them than there is room for.
#include "quota/owner_names.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::quota {
namespace {

TEST(OwnerNames, keep_names_of_any_length) {
  OwnerNames names(100);
  std::vector<OwnerNames::Block> kept;
  for (size_t bytes = 1; bytes <= 128; ++bytes) {
    kept.push_back(names.keep(std::string(bytes, static_cast<char>(bytes))));
  }
  for (size_t bytes = 1; bytes <= 128; ++bytes) {
    EXPECT_EQ(names.at(kept[bytes - 1]), std::string(bytes, static_cast<char>(bytes)));
  }
}

TEST(OwnerNames, no_name_takes_no_memory) {
  OwnerNames names(1);
  EXPECT_EQ(names.keep(""), OwnerNames::none);
  EXPECT_EQ(names.at(OwnerNames::none), "");
  names.drop(OwnerNames::none);
}

TEST(OwnerNames, are_lost_when_there_is_no_room_until_one_is_dropped) {
  OwnerNames names(1);
  const std::string name(100, 'x');
  OwnerNames::Block last = OwnerNames::none;
  for (OwnerNames::Block kept = names.keep(name); kept != OwnerNames::none;) {
    last = kept;
    kept = names.keep(name);
  }
  EXPECT_EQ(names.at(names.keep(name)), "");
  names.drop(last);
  EXPECT_EQ(names.at(names.keep(name)), name);
}

}  // namespace
}  // namespace sluice::quota
