// Pages of answers: how many rows a page has, and where the next one begins.
// Shape:  a cursor is the next place plus one, since zero means no cursor.
#pragma once

#include <algorithm>
#include <cstdint>

#include "api/quota.hpp"
#include "base/limits.hpp"

namespace sluice::quota {

inline uint32_t rows_max(const api::QuotaCall& call) noexcept {
  return call.limit == 0 ? limits::subjects_page_max
                         : std::min(call.limit, limits::subjects_page_max);
}

constexpr uint64_t cursor_at(uint64_t place) noexcept {
  return place + 1;
}

constexpr uint64_t first_place(const api::QuotaCall& call) noexcept {
  return call.cursor == 0 ? 0 : call.cursor - 1;
}

}  // namespace sluice::quota
