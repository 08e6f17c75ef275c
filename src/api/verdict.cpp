#include "api/verdict.hpp"

#include <array>

namespace sluice::api {

std::string_view verdict_name(Verdict verdict) noexcept {
  static constexpr std::array<std::string_view, verdicts_count> names{"none",
                                                                      "approved",
                                                                      "denied",
                                                                      "queued",
                                                                      "table_full",
                                                                      "waiters_full",
                                                                      "overloaded",
                                                                      "not_allowed",
                                                                      "never_fits",
                                                                      "invalid_key",
                                                                      "wait_limit",
                                                                      "withdrawn",
                                                                      "draining",
                                                                      "handles_full",
                                                                      "owner_unreachable",
                                                                      "connection_waiters_full",
                                                                      "key_waiters_full"};
  const auto index = static_cast<size_t>(verdict);
  return index < names.size() ? names[index] : names[0];
}

}  // namespace sluice::api
