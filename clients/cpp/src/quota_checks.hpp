// Checks of calls about quotas before they are sent: the server would refuse a whole frame, which
// may have entries of other callers. Part of Client.
// Errors: std::invalid_argument; its text begins with the field, as in the answers of REST.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "quota_calls.hpp"
#include "sluicegate/quota.hpp"

namespace sluicegate {

void require_subject(std::string_view field, std::string_view subject);
// Of an error of the server, which bounds the length of names; the rest was checked before.
InvalidSubject invalid_subject(QuotaCode code, std::span<const std::string_view> subjects);
void require_lifetime(uint32_t lifetime_ms);
void require_valid(const ReserveOptions& options);
void require_valid(const ConsumeOptions& options);
void require_valid(const Used& used);
void require_valid(const QuotaCall& call);
void require_valid(const Quota& quota);

// Checks an entry of a batch: a complaint names the entry too.
template <typename Check>
void check_entry(size_t index, Check check) {
  try {
    check();
  } catch (const std::invalid_argument& fault) {
    throw std::invalid_argument("entries[" + std::to_string(index) + "], " + fault.what());
  }
}

}  // namespace sluicegate
