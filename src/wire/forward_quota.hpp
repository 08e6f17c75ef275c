// Quota calls that one node forwards to another: the frame ForwardQuota, as both write and read it.
// Flow:   calls of a batch -> encode_forward_quota() -> the lane -> decode() -> read_calls() -> the
//         calls of a batch at the other node.
// Shape:  proto/sluicegate.capnp; docs/protocol.md, "Quotas between nodes". A call has all that an
//         api::QuotaCall can ask for, but what belongs to one node: its ticket, its waiter, its
//         shard.
// Errors: read_calls() is false when a value is out of its bounds: only a node whose memory is
//         damaged sends that.
// Lives:  calls that were read point into the frame. Allocates, as requests about quotas may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/quota.hpp"
#include "wire/capnp_codec_quota.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::wire {

// Bits of QuotaCall.flags.
namespace call_bit {
inline constexpr uint8_t may_wait = 1, waiters_full = 2, connection_waiters_full = 4,
                         wants_limits = 8, wants_violated = 16, keep_requests = 32,
                         undelivered = 64, cancels = 64, handed_over = 64, wants_outcome = 128;
}

// In the number of a binding that another node uses; this node's own never have it.
inline constexpr uint64_t binding_of_node = uint64_t{1} << 63;

// Whether the frame has a name for the operation.
bool may_forward(api::QuotaOp op) noexcept;

// In one frame: their answers fit into a reply.
inline constexpr size_t forwarded_calls_max = limits::forwarded_calls_max;
// Calls that are answered with whole subjects.
inline constexpr size_t forwarded_rows_calls_max = 16;
// What a call of the batch takes in the frame, at most; and the frame without calls.
size_t forwarded_call_bytes(const api::QuotaBatch& batch, size_t index);
inline constexpr size_t forward_quota_head_bytes = 88;
// The whole frame, at most.
size_t forward_quota_bytes(const api::QuotaBatch& batch);

// A frame's bytes, in words.
using FrameWords = std::vector<uint64_t>;

// All calls of the batch; of a visit, with what is known of them. Of one that may wait,
// `wait_answers` says whether its outcome is to have its limits.
FrameWords encode_forward_quota(uint64_t id, uint64_t sender, const api::QuotaBatch& batch);

// Appends the calls to an empty batch. `wants_outcome`, of each: its outcome shows limits.
bool read_calls(const ForwardQuotaRequest& request, api::QuotaBatch& batch,
                std::vector<bool>& wants_outcome) noexcept;

}  // namespace sluice::wire
