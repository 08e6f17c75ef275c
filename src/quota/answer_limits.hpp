// Answers how the limits of a call's subjects stand: LimitReports of a batch, or of a wait.
// Units:  those of each limit; times in milliseconds.
// Errors: what the batch has no room for is left out, and the answer says so.
#pragma once

#include <vector>

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/members.hpp"

namespace sluice::quota {

// One limit of a member, whose meter was rolled.
api::LimitReport report_of(const limiter::MeterShape& shape, const api::Limit& limit,
                           const Member& member, const limiter::Moment& now) noexcept;

enum class ReportedLimits : uint8_t { all, violated };

// Of a call whose answer has its code: a refusal says which limits it violates. `reports` are those
// of all calls of the batch.
void answer_limits(api::QuotaAnswer& answer, std::vector<api::LimitReport>& reports,
                   const Members& members, const api::Amounts& amounts, ReportedLimits which,
                   const AnswerSources& from) noexcept;

}  // namespace sluice::quota
