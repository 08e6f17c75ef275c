// The answers to quota calls that another node forwarded: the frame QuotaOutcomes, as both nodes
// write and read it.
// Flow:   a decided batch, or calls that have waited -> encode_outcomes() -> the lane ->
//         read_outcomes() -> the answers of a batch at the node that has the client.
// Shape:  proto/sluicegate.capnp; docs/protocol.md, "Quotas between nodes". All lists as they lie
//         in the batch, so that answers point into them.
// Errors: read_outcomes() fails when an answer points outside the lists, or a value is impossible:
//         the lane is lost.
// Bounds: outcomes_bytes_max(); of at most forwarded_calls_max calls they fit into a reply.
// Lives:  values. Allocates, as requests about quotas may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/quota.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::wire {

struct QuotaOutcomes {
  std::vector<uint32_t> entries;  // of those that have waited; empty: all
  std::vector<api::QuotaAnswer> answers;
  std::vector<api::LimitReport> limits;
  std::vector<api::SubjectRow> rows;
  std::vector<api::HolderRow> holders;
  std::vector<api::Quota> quotas;
  std::string text;
  // Of a visit.
  std::vector<api::SpreadCall> parts;
  std::vector<api::PartReport> reports;
  bool knows_round = false;
  int64_t clock_ns = 0;
};

// What encode_outcomes() takes of them.
struct QuotaOutcomesView {
  std::span<const uint32_t> entries;
  std::span<const api::QuotaAnswer> answers;
  std::span<const api::LimitReport> limits;
  std::span<const api::SubjectRow> rows;
  std::span<const api::HolderRow> holders;
  std::span<const api::Quota> quotas;
  std::string_view text;
  const api::QuotaBatch* visit = nullptr;  // null: the answers are final
};
QuotaOutcomesView outcomes_of(const api::QuotaBatch& batch) noexcept;

// Before they are known.
size_t outcomes_bytes_max(const api::QuotaBatch& asked) noexcept;
// Of calls that have waited, with so many limits.
size_t waited_bytes_max(size_t calls_count, size_t limits_count) noexcept;

FrameWords encode_outcomes(uint64_t id, const QuotaOutcomesView& outcomes);

// A frame of which decode_owner_frame() has found the kind.
struct QuotaOutcomesFrame {
  Frame frame;
};
std::optional<QuotaOutcomes> read_outcomes(const QuotaOutcomesFrame& frame) noexcept;
// Whether they can be the answers to these calls.
bool are_answers_to(const QuotaOutcomes& outcomes, std::span<const api::QuotaCall> calls) noexcept;

}  // namespace sluice::wire
