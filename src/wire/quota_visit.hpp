// The share that another node has in a pass of a batch of quota calls: of the frames ForwardQuota
// and QuotaOutcomes, what they have beside the calls and the answers.
// Flow:   fill_visit() -> the frame -> read_visit(), at the other node -> its shards have their
//         shares -> fill_part() for each call -> read_part(), at home.
// Shape:  proto/sluicegate.capnp: QuotaVisit, QuotaPart, PartReport. The times of a part are
//         nanoseconds from now on (visit_time.hpp).
// Errors: false when a value is impossible.
#pragma once

#include <sluicegate.capnp.h>

#include <cstddef>
#include <cstdint>

#include "api/quota.hpp"

namespace sluice::wire {

size_t visit_bytes(size_t calls_count) noexcept;
void fill_visit(schema::QuotaVisit::Builder to, const api::QuotaBatch& batch);
// Into a batch that has the calls.
bool read_visit(schema::QuotaVisit::Reader from, api::QuotaBatch& batch);

void fill_part(schema::QuotaPart::Builder to, const api::QuotaBatch& batch, size_t index);
// Sets the call's part, and the code of its answer.
bool read_part(schema::QuotaPart::Reader from, api::SpreadCall& part, api::QuotaCode& verdict);

}  // namespace sluice::wire
