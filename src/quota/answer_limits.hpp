// Answers how the limits of a call's subjects stand: LimitReports in a batch.
// Units:  those of each limit; times in milliseconds.
// Errors: what the batch has no room for is left out, and the answer says so.
#pragma once

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/members.hpp"

namespace sluice::quota {

// One limit of a member, whose meter was rolled.
api::LimitReport report_of(const limiter::MeterShape& shape, const api::Limit& limit,
                           const Member& member, const limiter::Moment& now) noexcept;

enum class ReportedLimits : uint8_t { all, violated };

// Of the call with this index, whose answer has its code: a refusal says which limits it violates.
void answer_limits(api::QuotaBatch& batch, size_t index, const Members& members,
                   const api::Amounts& amounts, ReportedLimits which,
                   const AnswerSources& from) noexcept;

}  // namespace sluice::quota
