// Lists the holders of reservations: HolderRows in a batch, for one reservation or for all open
// ones.
// Errors: a page without room for more rows ends with a cursor; names that are too long are left
//         out, and counted.
#pragma once

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/limited_subjects.hpp"

namespace sluice::quota {

// Reports how a reservation ended, or what it holds.
void answer_record(const IdRecord& record, api::QuotaAnswer& answer) noexcept;

// Answers about one reservation, with a row for each of its subjects.
void answer_reservation(api::QuotaBatch& batch, size_t index, const AnswerSources& from) noexcept;

// Lists the open reservations of the subject that the call names, or all of them, in the order of
// their places: a reservation that stays open throughout has a row in exactly one page.
void answer_holders(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                    const AnswerSources& from) noexcept;

// Whether other shards have parts of a reservation in the rows of the batch's call.
bool are_incomplete(const api::QuotaBatch& batch) noexcept;
// Writes to such rows what this shard knows of their reservations.
void complete_holders(api::QuotaBatch& batch, const AnswerSources& from) noexcept;
// Every shard has done so. Reservations that have ended meanwhile are not listed.
void pack_holders(api::QuotaBatch& batch);

}  // namespace sluice::quota
