// Cap'n Proto frames <-> values. kj exceptions are caught here and become ErrorCode::malformed.
// Flow:   read_frame()'s frame -> decode() -> ClientRequest, whose columns are views of the frame;
//         answers -> encode_*() -> bytes at the end of a connection's output buffer.
// Shape:  proto/sluicegate.capnp; docs/protocol.md.
// Units:  frames are whole 8-byte words, 8-byte aligned, segment table first.
// Errors: decode() validates the whole frame before it returns a request (column lengths, sums of
//         key sizes, bounds, unknown flags); it never throws. encode_*() never fail: the caller
//         reserved the answer's *_bytes_max before.
// Lives:  views point into the frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/error_code.hpp"
#include "base/result.hpp"
#include "wire/capnp_codec_quota.hpp"
#include "wire/column.hpp"
#include "wire/permit.hpp"
#include "wire/topology.hpp"

namespace sluice::wire {

// Hello and Welcome name it.
inline constexpr uint16_t protocol_version = 1;

// Bits of Acquire.details.
namespace detail_bit {
inline constexpr uint8_t limit = 1, window = 2, remaining = 4, reset = 8, retry = 16,
                         request_id = 32, position = 64, all = 127;
// A waiter has its position once, with `queued`.
inline constexpr uint8_t of_granted = all & ~position;
}  // namespace detail_bit

// Bits of Acquire.flags.
namespace frame_bit {
inline constexpr uint8_t may_wait = 1, forwarded = 2;
}

// Bits of Acquire.entryFlags; the others only of Forward.entryFlags.
namespace entry_bit {
inline constexpr uint8_t may_wait = 1, waiters_full = 2, connection_waiters_full = 4,
                         of_forward = 7;
}

// Bits of Forward.entryDetails.
namespace entry_detail_bit {
inline constexpr uint8_t wants_details = 1, takes_id = 2, all = 3;
}

// Bits of Welcome.features.
namespace feature_bit {
inline constexpr uint64_t quotas = 1, windows = 2, looks = 4, forward = 8, topology = 16,
                          forward_quota = 32;
}

// In the column of windows; of the other overrides it is api::keep.
inline constexpr auto keep_window = static_cast<uint64_t>(api::keep_window);

struct HelloRequest {
  uint16_t version;
  uint32_t wanted_shard_plus_one;  // the shard plus one; 0: none
  std::string_view client_name;
  std::string_view token;
};

// The terms of a frame's entries; a column is empty, or has one item per entry.
struct AcquireCommon {
  Column<uint32_t> costs;
  Column<uint32_t> max_requests;
  Column<uint32_t> max_requests_in_queue;
  Column<uint8_t> entry_flags;
  Column<uint64_t> window_ms;
  uint32_t wait_limit_ms;
  uint8_t detail_bits;
  uint8_t flags;  // frame_bit

  bool all_may_wait() const noexcept { return (flags & frame_bit::may_wait) != 0; }
  bool has_wait_flags() const noexcept { return all_may_wait() || !entry_flags.empty(); }
  bool has_overrides() const noexcept {
    return !max_requests.empty() || !max_requests_in_queue.empty() || !window_ms.empty();
  }
  api::Overrides overrides(size_t entry) const noexcept {
    const auto value = []<typename T>(Column<T> column, size_t index, T absent) {
      return column.empty() ? absent : column[index];
    };
    return {.max_requests = value(max_requests, entry, api::keep),
            .max_requests_in_queue = value(max_requests_in_queue, entry, api::keep),
            .window_ms = static_cast<int64_t>(value(window_ms, entry, keep_window))};
  }
  // All options are the defaults: cost 1, no override, no waiting, no details.
  bool has_defaults_only() const noexcept {
    return costs.empty() && !has_overrides() && detail_bits == 0 && !has_wait_flags();
  }
};

struct AcquireRequest : AcquireCommon {
  std::string_view keys;
  Column<uint16_t> key_sizes;  // their sum is keys.size()
};

// Entries that another node forwards. A plain one is read as an Acquire is.
struct ForwardRequest : AcquireRequest {
  Column<uint8_t> operations;  // api::Op
  Column<uint32_t> wait_limits_ms;
  Column<uint8_t> entry_details;  // entry_detail_bit

  bool has_defaults_only() const noexcept {
    return AcquireRequest::has_defaults_only() && operations.empty();
  }
  // entry_bit
  uint8_t wait_bits(size_t entry) const noexcept {
    if (all_may_wait()) return entry_bit::may_wait;
    return entry_flags.empty() ? 0 : entry_flags[entry];
  }
  // entry_detail_bit
  uint8_t detail_wishes(size_t entry) const noexcept {
    if (detail_bits == 0) return 0;
    const bool has_ids = (detail_bits & detail_bit::request_id) != 0;
    const uint8_t of_all = has_ids ? entry_detail_bit::all : entry_detail_bit::wants_details;
    return entry_details.empty() ? of_all : entry_details[entry] & of_all;
  }
  uint32_t wait_limit(size_t entry) const noexcept {
    return wait_limits_ms.empty() ? wait_limit_ms : wait_limits_ms[entry];
  }
};

// Permits that no client received: those of Granted, and those that a Forward approved too late.
struct RefundRequest {
  std::string_view permits;  // a multiple of permit_bytes
  uint64_t target;           // the Forward, if there are keys
  std::string_view keys;
  Column<uint16_t> key_sizes;
  Column<uint32_t> costs;
};

struct AcquireByHandleRequest : AcquireCommon {
  Column<uint32_t> handles;
};

struct ReleaseRequest {
  std::string_view keys;
  Column<uint16_t> key_sizes;
  Column<uint32_t> costs;
};

struct WithdrawRequest {
  uint64_t target;
  Column<uint32_t> entries;  // empty: all
};

struct InspectRequest {
  std::string_view key;  // empty: a page of all keys, from `cursor`
  uint64_t cursor;
  uint32_t limit;
};

struct InternRequest {
  std::string_view keys;
  Column<uint16_t> key_sizes;
};

struct ForgetRequest {
  Column<uint32_t> handles;
};

struct PingRequest {};

struct TopologyRequest {};

// A kind of frame from a newer version of the protocol.
struct UnsupportedRequest {};

struct ClientRequest {
  uint64_t id;
  std::variant<UnsupportedRequest, HelloRequest, AcquireRequest, AcquireByHandleRequest,
               ReleaseRequest, WithdrawRequest, InspectRequest, InternRequest, ForgetRequest,
               PingRequest, ReserveRequest, CheckRequest, SettleRequest, CancelRequest,
               ExtendRequest, RecordRequest, UsageRequest, QuotaChangeRequest, ResetRequest,
               ConsumeRequest, ForwardRequest, RefundRequest, TopologyRequest, ForwardQuotaRequest>
      body;
};

// Why a frame is invalid, and its id; 0 when the id could not be read.
struct DecodeError {
  ErrorCode code;
  uint64_t id;
};

// Decodes one whole frame, as read_frame() returns it: segment table included.
tl::expected<ClientRequest, DecodeError> decode(std::span<const std::byte> frame) noexcept;
// The same without the fast path: always through the Cap'n Proto library. Tests compare decode()
// with it.
tl::expected<ClientRequest, DecodeError> decode_with_library(
    std::span<const std::byte> frame) noexcept;

// ---------------------------------------------------------------------------------- answers

struct WelcomeAnswer {
  uint32_t shard = 0;
  uint32_t shards = 1;
  uint64_t routing_seed = 0;
  uint64_t instance_id = 0;
  uint32_t waiting_entries_max = 0;
  uint32_t handles_max = 0;
  uint32_t key_bytes_max = 0;
  std::string_view server_version;
  uint16_t rest_port = 0;
  bool takes_forwards = true;      // over this connection
  bool takes_quota_calls = false;  // likewise, of another node's clients
};

struct ErrorAnswer {
  ErrorCode code;
  std::string_view text;
};

// Upper bounds of an answer's size, so that the caller can reserve room before it decides.
size_t verdicts_bytes_max(uint32_t entries_count, uint8_t detail_bits) noexcept;
size_t granted_bytes_max(uint32_t entries_count, uint8_t detail_bits,
                         uint32_t permits_count = 0) noexcept;
size_t interned_bytes_max(uint32_t keys_count) noexcept;
size_t inspected_bytes_max(std::span<const api::KeyState> keys) noexcept;
size_t topology_bytes_max(const Topology& topology) noexcept;
inline constexpr size_t small_answer_bytes_max = 1'024;  // welcome, done, pong, error, go_away

// Each writes one frame at the start of `out`, clears only the bytes that it uses, and returns the
// frame's size in bytes. `out` is 8-byte aligned and as large as the bound above.
size_t encode_welcome(uint64_t id, const WelcomeAnswer&, std::span<std::byte> out) noexcept;
size_t encode_verdicts(uint64_t id, std::span<const api::Verdict>,
                       std::span<const api::Detail> details, uint8_t detail_bits,
                       std::span<std::byte> out) noexcept;
// Of an Acquire or a Forward; `permits` of the latter's approved entries, in their order.
size_t encode_granted(uint64_t id, std::span<const uint32_t> entries, std::span<const api::Verdict>,
                      std::span<const api::Detail> details, uint8_t detail_bits,
                      std::span<std::byte> out, std::span<const Permit> permits = {}) noexcept;
// Of a Reserve.
struct ReserveOutcomes {
  std::span<const uint32_t> entries;
  std::span<const api::QuotaCode> codes;
  std::span<const uint64_t> reservations;
  std::span<const int64_t> retry_after_ms;
};
size_t encode_granted(uint64_t id, const ReserveOutcomes&, std::span<std::byte> out) noexcept;
size_t encode_done(uint64_t id, std::span<std::byte> out) noexcept;
size_t encode_pong(uint64_t id, std::span<std::byte> out) noexcept;
size_t encode_interned(uint64_t id, std::span<const api::Handle> handles,
                       std::span<const api::Verdict>, std::span<std::byte> out) noexcept;
size_t encode_inspected(uint64_t id, std::span<const api::KeyState>, uint64_t next_cursor,
                        std::span<std::byte> out) noexcept;
size_t encode_topology(uint64_t id, const Topology&, std::span<std::byte> out) noexcept;
size_t encode_error(uint64_t id, const ErrorAnswer&, std::span<std::byte> out) noexcept;
size_t encode_go_away(std::string_view reason, std::span<std::byte> out) noexcept;

}  // namespace sluice::wire
