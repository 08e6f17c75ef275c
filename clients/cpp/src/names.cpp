#include <array>

#include "sluicegate/error.hpp"
#include "sluicegate/verdict.hpp"

namespace sluicegate {

std::string_view name(Verdict verdict) noexcept {
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
  return index < names.size() ? names[index] : "unknown";
}

std::string_view name(ErrorCode code) noexcept {
  static constexpr std::array<std::string_view, 23> names{"none",
                                                          "malformed",
                                                          "frame_too_large",
                                                          "hello_expected",
                                                          "unexpected_hello",
                                                          "unsupported_version",
                                                          "unsupported",
                                                          "bad_columns",
                                                          "too_many_entries",
                                                          "bad_cost",
                                                          "bad_override",
                                                          "bad_wait_limit",
                                                          "id_in_use",
                                                          "too_many_outstanding",
                                                          "too_many_connections",
                                                          "draining",
                                                          "hello_timeout",
                                                          "bad_flag",
                                                          "bad_amount",
                                                          "bad_lifetime",
                                                          "bad_subject",
                                                          "frame_timeout",
                                                          "secret_expected"};
  const auto index = static_cast<size_t>(code);
  return index < names.size() ? names[index] : "unknown";
}

std::string_view name(Failure failure) noexcept {
  static constexpr std::array<std::string_view, 8> names{
      "none",      "connection_lost", "unreachable", "draining",
      "timed_out", "overloaded",      "refused",     "closed"};
  const auto index = static_cast<size_t>(failure);
  return index < names.size() ? names[index] : "unknown";
}

Refused::Refused(ErrorCode code, const std::string& text)
    : Error{"the server refused: " + text + " (" + std::string{name(code)} + ")"}, code_{code} {}

}  // namespace sluicegate
