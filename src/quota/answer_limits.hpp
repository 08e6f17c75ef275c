// Reports the state of the limits of a call's subjects: LimitReports of a batch, or of a wait.
// Units:  those of each limit; times in milliseconds.
// Errors: reports that the batch has no room for are left out, and the answer says so.
#pragma once

#include <vector>

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/limited_subjects.hpp"

namespace sluice::quota {

// Reports one limit of a limited subject; its meter has been rolled.
api::LimitReport report_of(const limiter::MeterShape& shape, const api::Limit& limit,
                           const LimitedSubject& each, const limiter::Moment& now) noexcept;

enum class ReportedLimits : uint8_t { all, violated };

// The answer has its code already: a refusal reports which limits it violates. `reports` are those
// of all calls of the batch.
void answer_limits(api::QuotaAnswer& answer, std::vector<api::LimitReport>& reports,
                   const LimitedSubjects& limited, const limiter::Shares& shares,
                   ReportedLimits which, const AnswerSources& from) noexcept;

}  // namespace sluice::quota
