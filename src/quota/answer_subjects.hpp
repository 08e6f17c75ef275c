// Answers what subjects there are, with their quotas and how their limits stand: SubjectRows in a
// batch.
// Errors: limits that the batch has no room for are left out, and the answer says so; a page ends
//         before that, with a cursor.
#pragma once

#include <string_view>

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/members.hpp"

namespace sluice::quota {

// A row for one subject of the answer with this index. no_subject: it is answered as if it were
// made now. `place`: among the call's subjects.
void add_subject_row(api::QuotaBatch& batch, size_t index, uint8_t place, SubjectIndex subject,
                     std::string_view name, const AnswerSources& from) noexcept;

// Of the subjects that the call names.
void answer_usage(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                  const AnswerSources& from) noexcept;

// Of all, in the order of their indexes: one that lives throughout has a row in just one page.
void answer_page(api::QuotaBatch& batch, size_t index, const AnswerSources& from) noexcept;

}  // namespace sluice::quota
