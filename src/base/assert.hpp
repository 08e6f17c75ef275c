// Assertions that stay on in release builds.
// Errors: a failed ASSERT is a bug of ours: it prints the condition and aborts. Never use it on
//         anything that a peer, a file or the kernel decides.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace sluice::base {

[[noreturn, gnu::cold]] inline void assertion_failed(const char* condition, const char* file,
                                                     int line) noexcept {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace sluice::base

#define ASSERT(condition)             \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::sluice::base::assertion_failed(#condition, __FILE__, __LINE__))

// For walks over data, too slow for release.
#ifdef SLUICE_DEBUG
#define DEBUG_ASSERT(condition) ASSERT(condition)
#else
#define DEBUG_ASSERT(condition) static_cast<void>(0)
#endif
