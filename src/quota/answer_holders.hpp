// Answers who holds what: HolderRows in a batch, of one reservation or of all open ones.
// Errors: a page that has no room for more ends with a cursor; names that are too long are left
//         out, and counted.
#pragma once

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/members.hpp"

namespace sluice::quota {

// How a reservation ended, or what it holds.
void answer_record(const IdRecord& record, api::QuotaAnswer& answer) noexcept;

// One reservation, with rows of its subjects.
void answer_reservation(api::QuotaBatch& batch, size_t index, const AnswerSources& from) noexcept;

// The open reservations of the subject that the call names, or all. In the order of their places:
// one that is open throughout has a row in just one page.
void answer_holders(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                    const AnswerSources& from) noexcept;

}  // namespace sluice::quota
