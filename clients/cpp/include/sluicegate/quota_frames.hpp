// The frames of quotas as values; part of frames.hpp, which describes how they are encoded and
// decoded.
// Lives:  spans and string_views of a request as long as the call, of an answer as its frame.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluicegate/quota.hpp"
#include "sluicegate/verdict.hpp"

namespace sluicegate {

// In a column of amounts: the entry gets the value that it would have without the column. A column
// of `requests` uses `keep` for this.
inline constexpr uint64_t unset = 0xFFFF'FFFF'FFFF'FFFF;
inline constexpr uint64_t amount_max = 0x7FFF'FFFF'FFFF'FFFF;
inline constexpr uint32_t quota_entries_max = 2'048;  // of a frame

// Bits of Welcome::features.
inline constexpr uint64_t feature_quotas = 1;
inline constexpr uint64_t feature_windows = 2;    // Acquire::window_ms
inline constexpr uint64_t feature_topology = 16;  // AskTopology

namespace quota_flag {
inline constexpr uint8_t may_wait = 1, connection_bound = 2, wants_limits = 4, wants_violated = 8,
                         keep_requests = 16;
}

// A column is empty, or has an element per entry.
struct Reserve {
  uint8_t flags = 0;  // bits of quota_flag::
  uint32_t wait_limit_ms = 0;
  uint32_t lifetime_ms = 0;
  std::span<const std::string_view> subjects{};  // of all entries
  std::span<const uint8_t> subject_counts{};     // of each entry; empty: one each
  std::span<const uint32_t> requests{};
  std::span<const uint64_t> input_tokens{};
  std::span<const uint64_t> max_output_tokens{};
  std::span<const uint64_t> costs{};
  std::span<const std::string_view> ids{};
  std::string_view owner{};
};

// Asks for the answer that a Reserve would get now.
struct Check {
  const Reserve& reserve;
};

struct Settle {
  std::span<const uint64_t> reservations{};
  std::span<const uint32_t> requests{};
  std::span<const uint64_t> input_tokens{};
  std::span<const uint64_t> cached_input_tokens{};
  std::span<const uint64_t> output_tokens{};
  std::span<const uint64_t> costs{};
};

struct Cancel {
  uint8_t flags = 0;
  std::span<const uint64_t> reservations{};
};

struct Extend {
  std::span<const uint64_t> reservations{};
  uint32_t lifetime_ms = 0;
};

struct Record {
  uint8_t flags = 0;
  std::span<const std::string_view> subjects{};
  std::span<const uint8_t> subject_counts{};
  std::span<const uint32_t> requests{};
  std::span<const uint64_t> input_tokens{};
  std::span<const uint64_t> cached_input_tokens{};
  std::span<const uint64_t> output_tokens{};
  std::span<const uint64_t> costs{};
  std::span<const std::string_view> ids{};
};

struct Consume {
  const Record& record;  // its flags may have may_wait and wants_violated
  uint32_t wait_limit_ms = 0;
};

struct AskUsage {
  std::span<const std::string_view> subjects{};  // at most 256; none: a page of all
  uint64_t cursor = 0;
  uint32_t limit = 0;
};

struct PutQuota {
  std::string_view subject{};
  const Quota& quota;
};

struct RemoveQuota {
  std::string_view subject{};
};

struct Reset {
  std::string_view subject{};  // empty: all
};

using QuotaCodeColumn = CodeColumn<QuotaCode>;

struct QuotaAnswers {
  uint64_t id = 0;
  QuotaCodeColumn codes{};
  std::span<const uint64_t> reservations{};   // empty: none
  std::span<const int64_t> retry_after_ms{};  // empty: 0 each
  std::vector<LimitState> limits{};           // in the order of the entries
  uint32_t limits_left_out = 0;
  std::string_view detail{};  // of `invalid_quota`: the fields at fault
};

struct UsageReply {
  uint64_t id = 0;
  SubjectPage page{};
};

}  // namespace sluicegate
