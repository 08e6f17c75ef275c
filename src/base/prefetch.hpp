// The attribute of functions that only prefetch.
#pragma once

// g++ 12 treats a function that only prefetches as one without effect and drops calls to it, unless
// it is inlined.
#define SLUICE_PREFETCH_FUNCTION [[gnu::always_inline]]
