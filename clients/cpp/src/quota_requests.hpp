// Makes the entry of a frame of each call about quotas. Part of Client.
// Errors: std::invalid_argument for an option or amount outside its bounds.
// Lives:  a call refers to the texts of its caller.
#pragma once

#include <cstdint>
#include <string_view>

#include "quota_calls.hpp"
#include "sluicegate/quota.hpp"

namespace sluicegate {

// The callback, or one that does nothing.
Client::QuotaCallback or_nothing(Client::QuotaCallback done);

QuotaCall call_of(QuotaCall::Kind kind, const Subjects& subjects, const ReserveOptions& options);
QuotaCall settle_of(uint64_t reservation, const Used& used);
QuotaCall cancel_of(uint64_t reservation, bool keep_requests);
QuotaCall extend_of(uint64_t reservation, uint32_t lifetime_ms);
QuotaCall consume_of(const Subjects& subjects, const Used& used, const ConsumeOptions& options);
QuotaCall record_of(const Subjects& subjects, const Used& used, std::string_view id);

}  // namespace sluicegate
