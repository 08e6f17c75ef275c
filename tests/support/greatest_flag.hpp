// The greatest value that a flag takes, for tests that live a time to its end.
// Flow: flags_test.cpp looks for greatest("NAME") of each flag that ends in -millis in the files
//       tests/unit/*/longest_*_test.cpp: a new time without a life turns it red.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <variant>

#include "config/flag_table.hpp"

namespace sluice::test {

inline int64_t greatest(std::string_view flag_name) {
  for (const config::Flag& flag : config::flag_table) {
    if (flag.name() == flag_name) return std::get<config::NumberFlag>(flag.value).max;
  }
  ADD_FAILURE() << "there is no flag " << flag_name;
  return 0;
}

}  // namespace sluice::test
