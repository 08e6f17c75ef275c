// A quota, compiled: shared by all subjects that have the same one.
// Flow:   a quota of the book, or one that was put -> QuotaClasses -> a class, which stays while
//         somebody holds it.
// Shape:  classes have a place of their own that does not move; equal quotas share one.
// Lives:  one core. Making one allocates: that happens when quotas change, never for a request.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/limit.hpp"
#include "limiter/meter.hpp"

namespace sluice::quota {

struct QuotaClass {
  api::Quota quota;
  std::vector<limiter::MeterShape> shapes;  // of its limits, in their order
  uint32_t words = 0;                       // of one subject's usage ...
  uint32_t head_words = 0;                  // ... and those that every call looks at
  bool limits_anything = false;             // some limit has a number, or blocks
  bool has_gcra = false;
  mutable uint32_t holders = 0;
};

class QuotaClasses {
 public:
  // A class for this quota, held once more.
  const QuotaClass* hold(const api::Quota& quota);
  static void hold(const QuotaClass* of) noexcept { ++of->holders; }
  void let_go(const QuotaClass* of) noexcept;
  size_t count() const noexcept { return classes_.size(); }

 private:
  std::unordered_multimap<size_t, std::unique_ptr<QuotaClass>> classes_;
};

// What tells a limit of a quota from the others when the quota changes, and in stamps of charges.
uint32_t limit_id(std::string_view name) noexcept;

// Whether usage against one limit goes on against the other.
bool continues(const limiter::MeterShape& before, const limiter::MeterShape& now) noexcept;

}  // namespace sluice::quota
