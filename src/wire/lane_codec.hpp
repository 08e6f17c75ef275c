// The frames of a lane, as the node that forwards entries writes and reads them: the client's side
// of the native protocol.
// Flow:   entries of a message -> cut_forward() -> encode_forward() -> the lane's output; bytes of
//         the owner -> read_frame() -> decode_owner_frame() -> copy_to() -> the message's answers.
// Shape:  proto/sluicegate.capnp; docs/protocol.md, "Forward". A message is mostly one frame; one
//         that is longer than the owner accepts becomes several.
// Units:  frames are whole 8-byte words, 8-byte aligned, segment table first. *_bytes() are exact.
// Errors: decode_owner_frame() checks the length of every column, and never throws: malformed or
//         bad_columns is final for the lane. encode_*() never fail: `out` is 8-byte aligned and has
//         the frame's bytes.
// Lives:  views point into the frame, or into the arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/error_code.hpp"
#include "base/result.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/column.hpp"
#include "wire/frame_reader.hpp"
#include "wire/quota_outcomes.hpp"

namespace sluice::wire {

// ------------------------------------------------------------------------------ to the owner

struct LaneHello {
  std::string_view client_name;
  std::string_view token;
  uint32_t wanted_shard_plus_one = 0;  // the shard plus one; 0: any
};
size_t hello_bytes(const LaneHello& hello) noexcept;
size_t encode_hello(uint64_t id, const LaneHello& hello, std::span<std::byte> out) noexcept;

// A series of entries of one form: plain ones (one permit, nothing else) have text and sizes of
// their keys, others are entries. Their `ticket` stays here; the owner takes one of its own.
struct ForwardRun {
  std::string_view text;                // plain: all keys, end to end
  std::span<const uint16_t> key_sizes;  // plain: their sum is text.size()
  std::span<const api::Entry> entries;  // detailed

  uint32_t entries_count() const noexcept {
    return static_cast<uint32_t>(key_sizes.size() + entries.size());
  }
};

// What the owner's Welcome announces.
struct FrameBounds {
  size_t frame_bytes_max;
  uint32_t frame_entries_max;
};

// The entries of one Forward frame: [first_entry, first_entry + entries_count) of all runs.
struct ForwardCut {
  uint32_t first_entry = 0;
  uint32_t entries_count = 0;
  size_t frame_bytes = 0;

  // For encode_forward().
  size_t text_bytes = 0;
  uint16_t columns = 0;  // pointers of the columns that some entry needs, a bit each
  uint8_t detail_bits = 0;
  uint8_t flags = 0;  // frame_bit
  uint32_t wait_limit_ms = 0;
};

// The next frame: as many entries from `first_entry` on as fit, at least one. Does no work for each
// entry if all are plain and fit.
ForwardCut cut_forward(std::span<const ForwardRun> runs, uint32_t first_entry,
                       const FrameBounds& bounds) noexcept;
// Returns cut.frame_bytes.
size_t encode_forward(uint64_t id, std::span<const ForwardRun> runs, const ForwardCut& cut,
                      std::span<std::byte> out) noexcept;

// `entries`: positions in the Forward frame `target`; empty: all that wait.
size_t withdraw_bytes(size_t entries_count) noexcept;
size_t encode_withdraw(uint64_t id, uint64_t target, std::span<const uint32_t> entries,
                       std::span<std::byte> out) noexcept;

// Permits that arrived in Granted when their client had left.
inline constexpr size_t refund_permits_max = 4'096;  // of one frame
size_t refund_bytes(std::span<const Permit> permits) noexcept;
size_t encode_refund(uint64_t id, std::span<const Permit> permits,
                     std::span<std::byte> out) noexcept;

// Entries that the Verdicts of the frame `target` approved too late: nobody received the answer.
// To be sent at once, over the lane that brought the Verdicts: the owner remembers when the frame
// came for the last `limits::remembered_forwards` frames of a lane only.
struct LateApproval {
  std::string_view key;
  uint32_t cost = 1;
};
size_t refund_bytes(std::span<const LateApproval> entries) noexcept;
size_t encode_refund(uint64_t id, uint64_t target, std::span<const LateApproval> entries,
                     std::span<std::byte> out) noexcept;

inline constexpr size_t ping_bytes = 40;
size_t encode_ping(uint64_t id, std::span<std::byte> out) noexcept;

// ---------------------------------------------------------------------------- from the owner

struct WelcomeFrame {
  uint16_t version = 0;
  uint32_t shard = 0;
  uint32_t shards = 0;
  bool routing_known = false;  // the hash is the one of proto/key_hash.hpp
  uint64_t routing_seed = 0;
  FrameBounds bounds{};
  uint32_t outstanding_frames_max = 0;
  uint32_t outstanding_bytes_max = 0;
  uint32_t waiting_entries_max = 0;
  uint32_t key_bytes_max = 0;
  uint64_t instance_id = 0;
  uint64_t features = 0;  // feature_bit
  uint16_t rest_port = 0;
  std::string_view server_version;
};

// Each is empty, or as long as the answer has entries.
struct AnswerDetails {
  Column<uint32_t> limit;
  Column<uint64_t> window_ms;
  Column<uint32_t> remaining;
  Column<uint64_t> reset_ms;
  Column<uint64_t> retry_after_ms;
  Column<uint64_t> request_id;
  Column<uint32_t> position;

  // Numbers beyond what api::Detail holds do not come from an owner; they are cut off.
  api::Detail operator[](size_t entry) const noexcept;
};

// One byte, or one for each entry. A verdict of a newer owner, which is a refusal, becomes
// owner_unreachable.
struct AnswerVerdicts {
  Column<uint8_t> bytes;
  api::Verdict operator[](size_t entry) const noexcept;
};

struct VerdictsFrame {
  uint32_t count = 0;
  AnswerVerdicts verdicts;
  AnswerDetails details;
  bool has_details = false;

  // As many as `count`: compare it with the entries of the Forward before.
  void copy_to(std::span<api::Verdict> to) const noexcept;
  // Does nothing when there are no details.
  void copy_to(std::span<api::Detail> to) const noexcept;
};

// Outcomes of entries that waited, in any order; never `queued`.
struct GrantedFrame {
  Column<uint32_t> entries;  // positions in the Forward: compare them with its entries before
  AnswerVerdicts verdicts;
  AnswerDetails details;
  std::string_view permits;  // of the approved entries, in their order; or empty

  // Calls `visit(uint32_t entry, api::Verdict, const api::Detail&, const Permit&)` for each; the
  // permit is zeros if the entry is not approved.
  template <typename Visit>
  void each(Visit visit) const;
};

struct DoneFrame {};  // of Withdraw and Refund
struct PongFrame {};
struct ErrorFrame {
  ErrorCode code = ErrorCode::none;
  std::string_view text;
};
struct GoAwayFrame {
  std::string_view reason;
};
// A kind that answers no frame of a lane.
struct OtherFrame {};

struct OwnerFrame {
  uint64_t id = 0;
  std::variant<OtherFrame, WelcomeFrame, VerdictsFrame, GrantedFrame, DoneFrame, PongFrame,
               ErrorFrame, GoAwayFrame, QuotaOutcomesFrame>
      body;
};

// One whole frame, as read_frame() returns it.
tl::expected<OwnerFrame, ErrorCode> decode_owner_frame(Frame frame) noexcept;

template <typename Visit>
void GrantedFrame::each(Visit visit) const {
  size_t next_permit = 0;
  for (size_t index = 0; index < entries.size(); ++index) {
    const api::Verdict verdict = verdicts[index];
    Permit permit{};
    if (verdict == api::Verdict::approved && !permits.empty()) {
      permit = nth_permit(permits, next_permit++);
    }
    visit(entries[index], verdict, details[index], permit);
  }
}

}  // namespace sluice::wire
