// What both formats can have.
#pragma once

#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {

// Complaints about numbers and times that are negative, and names that are no UTF-8.
Complained<void> check_writable(const GoRatelimitFile& file);

}  // namespace sluice::transfer
