// What a request gets whose owner, another instance, does not answer; as --peer-failure names it.
#pragma once

#include <cstdint>

namespace sluice::base {

enum class PeerFailure : uint8_t {
  error,   // an error: 502
  closed,  // a denial
  local,   // what the instance that was asked decides by counts of its own
  open,    // an approval that nobody counts
};

}  // namespace sluice::base
