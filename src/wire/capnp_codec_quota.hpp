// Requests about quotas as they lie in frames, and their answers: the part of capnp_codec.hpp for
// quotas.
// Flow:   decode() -> a request of these -> api::QuotaBatch; answers -> encode_*() -> output.
// Shape:  proto/sluicegate.capnp; docs/protocol.md, "Quotas". A column is absent (empty), or has
//         one item per entry; in a column of amounts, `unset` (requests: api::keep) means that the
//         entry does not give the amount.
// Units:  tokens, requests, micro-units of cost; milliseconds.
// Errors: as capnp_codec.hpp.
// Lives:  views point into the frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "api/quota.hpp"
#include "wire/column.hpp"

namespace sluice::wire {

inline constexpr uint64_t unset = UINT64_MAX;

// Bits of the frames' flags.
namespace quota_bit {
inline constexpr uint8_t may_wait = 1, connection_bound = 2, wants_limits = 4, wants_violated = 8,
                         keep_requests = 16;
}

// Entries that name subjects: the first subject_counts[0] of them are the first entry's.
struct EntrySubjects {
  std::string_view subjects;
  Column<uint16_t> subject_sizes;  // their sum is subjects.size()
  Column<uint8_t> subject_counts;  // 1 to 8 each, their sum is the number of sizes; empty: 1 each

  size_t entries_count() const noexcept {
    return subject_counts.empty() ? subject_sizes.size() : subject_counts.size();
  }
};

struct EntryAmounts {
  Column<uint32_t> requests;
  Column<uint64_t> input_tokens;
  Column<uint64_t> cached_input_tokens;  // a part of the input; not of Reserve
  Column<uint64_t> output_tokens;        // of Reserve: the most there may be
  Column<uint64_t> costs;
};

struct EntryIds {
  std::string_view ids;
  Column<uint16_t> id_sizes;  // 0: none; their sum is ids.size()
};

struct ReserveRequest : EntrySubjects, EntryAmounts, EntryIds {
  std::string_view owner;
  uint32_t wait_limit_ms;
  uint32_t lifetime_ms;
  uint8_t flags;

  bool may_wait() const noexcept { return (flags & quota_bit::may_wait) != 0; }
};

// Asks for the answer that a Reserve would get.
struct CheckRequest : ReserveRequest {};

struct SettleRequest : EntryAmounts {
  Column<uint64_t> reservations;
  uint8_t flags;
};

struct CancelRequest {
  Column<uint64_t> reservations;
  uint8_t flags;
};

struct ExtendRequest {
  Column<uint64_t> reservations;
  uint32_t lifetime_ms;
  uint8_t flags;
};

struct RecordRequest : EntrySubjects, EntryAmounts, EntryIds {
  uint8_t flags;
};

struct ConsumeRequest : EntrySubjects, EntryAmounts, EntryIds {
  uint32_t wait_limit_ms;
  uint8_t flags;

  bool may_wait() const noexcept { return (flags & quota_bit::may_wait) != 0; }
};

struct UsageRequest {
  std::string_view subjects;
  Column<uint16_t> subject_sizes;  // empty: a page
  uint64_t cursor;
  uint32_t limit;
};

struct QuotaChangeRequest {
  std::string_view subject;
  bool remove;
  std::span<const std::byte> frame;  // for quota_of()
};

struct ResetRequest {
  std::string_view subject;  // empty: all
  bool all;
};

// Calls that another node forwards.
struct ForwardQuotaRequest {
  uint64_t sender;
  std::span<const std::byte> frame;  // for read_calls()
};

// The quota to put, or what is wrong with it: `place, field: cure`, at most
// invalid_detail_bytes_max bytes; allocates.
inline constexpr size_t invalid_detail_bytes_max = 2'048;
tl::expected<api::Quota, std::string> quota_of(const QuotaChangeRequest& request);

// ---------------------------------------------------------------------------------- answers

// The columns that an answer may have beside the codes.
struct QuotaColumns {
  bool reservations = false;
  bool retries = false;
  bool limits = false;
};

size_t quota_answers_bytes_max(size_t entries_count, QuotaColumns columns,
                               size_t limits_count_max) noexcept;
size_t encode_quota_answers(uint64_t id, std::span<const api::QuotaAnswer> answers,
                            std::span<const api::LimitReport> limits, QuotaColumns columns,
                            std::span<std::byte> out) noexcept;

// The answer `invalid_quota` to one call.
size_t invalid_quota_bytes_max(std::string_view detail) noexcept;
size_t encode_invalid_quota(uint64_t id, std::string_view detail,
                            std::span<std::byte> out) noexcept;

// Encodes the rows of all answers, in their order. Where they do not fit into one reply, the last
// rows come without quotas and limits; a reply always fits while all names together have at most
// usage_names_bytes_max.
inline constexpr size_t usage_names_bytes_max = size_t{limits::frame_bytes_max};
size_t usage_reply_bytes_max(const api::QuotaBatch& batch) noexcept;
size_t encode_usage_reply(uint64_t id, const api::QuotaBatch& batch,
                          std::span<std::byte> out) noexcept;

}  // namespace sluice::wire
