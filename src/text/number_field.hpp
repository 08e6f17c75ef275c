// A field that takes whole numbers within bounds: a row of its reader's table, which the tests of
// bounds share.
// Units:  as the name says; of a text or a list, its size.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::text {

struct NumberField {
  std::string_view name;
  uint64_t min;
  uint64_t max;
};

}  // namespace sluice::text
