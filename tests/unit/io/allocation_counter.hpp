// Counts every `operator new` of the program, in all threads.
#pragma once

#include <cstdint>

namespace sluice::io::test {

uint64_t allocations() noexcept;

}  // namespace sluice::io::test
