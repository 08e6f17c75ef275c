// Lists subjects with their quotas and the state of their limits: SubjectRows in a batch.
// Errors: limits that the batch has no room for are left out, and the answer says so; a page ends
//         before that, with a cursor.
#pragma once

#include <string_view>

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/limited_subjects.hpp"

namespace sluice::quota {

// Adds a row for one subject to the answer with this index. no_subject: as if the subject were made
// now. `place`: among the call's subjects.
void add_subject_row(api::QuotaBatch& batch, size_t index, uint8_t place, SubjectIndex subject,
                     std::string_view name, const AnswerSources& from) noexcept;

// Adds a row for each subject that the call names.
void answer_usage(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                  const AnswerSources& from) noexcept;

// Adds rows for all subjects, in the order of their indexes: a subject that lives throughout has a
// row in exactly one page.
void answer_page(api::QuotaBatch& batch, size_t index, const AnswerSources& from) noexcept;

}  // namespace sluice::quota
