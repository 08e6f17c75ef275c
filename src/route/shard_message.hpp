// What one shard sends another in one turn, and the answers that return in it.
// Flow:   its origin fills it -> the target decides and writes the answers into it -> it returns to
//         its origin, which takes the answers out and uses it again.
// Shape:  parts of requests, in the order in which they were sent; each has a series of entries.
//         A plain entry is the text of a key, perhaps with its hash, and asks for one permit; its
//         answer is a verdict. A detailed one is an api::Entry; its answer has a detail and a
//         waiter, too. All arrays have the same index. Lists for everything else.
// Units:  as in api/.
// Bounds: full with `entries_max` entries; but an empty one takes the part of any request.
// Lives:  belongs to its origin, which lends it to the target and does not touch it until it
//         returns. The arrays' memory is the mesh's. Lists of tasks and handovers, which are off
//         the request path, allocate.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"
#include "route/key_column.hpp"

namespace sluice::server {

struct QuotaTask;
struct ShardQuery;
struct StandInTask;

}  // namespace sluice::server

namespace sluice::route {

// A request of one shard to another that is no entry; lent like the message that carries it, which
// never reads it.
using ShardTask = std::variant<server::ShardQuery*, server::QuotaTask*, server::StandInTask*>;

// What the shard of a waiter's connection asks the waiter's owner to do.
struct Notice
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  enum class Kind : uint8_t {
    none,
    withdraw,  // its client withdraws it from its queue; the outcome follows as a grant
    abandon,   // its client has left; `done`: it was still queued, and no grant follows
    refund,    // it was granted, and its client has left
  };

  Kind kind = Kind::none;
  bool under_way = false;  // a message holds a copy, which will return
  bool done = false;
  bool quota = false;  // a waiter for quotas
  api::WaiterId waiter = api::no_waiter;
  api::Ticket ticket = api::no_ticket;
  api::RefundClaim refund_claim;  // refund
};

// A connection that moves, with the bytes that its peer has sent and that are not answered yet.
struct Handover {
  int fd = -1;
  uint32_t listener = 0;
  std::vector<std::byte> bytes;
};

// How an entry is in a message.
enum class Form : uint8_t {
  plain,     // the text of a key; its answer is a verdict
  hashed,    // the same, and the key's hash, which the shard knows of a key with a handle
  detailed,  // an api::Entry; its answer has a detail and a waiter, too
};

// The entries of one request in a message.
struct Part {
  uint32_t split = 0;  // the request, in the origin's SplitBook
  uint32_t first_entry = 0;
  uint32_t entries_count = 0;
  bool is_whole = false;  // all entries of the request, in its order
};

// A series of entries of one form, in consecutive parts.
struct MessageRun {
  Form form = Form::plain;
  uint32_t first_entry = 0;
  uint32_t entries_count = 0;
  size_t text_begin = 0;  // where the text of its first key is
};

class ShardMessage {
 public:
  // Of a part: the longest text of a frame's keys, by handle or not.
  static constexpr size_t text_bytes_max = limits::handles_text_bytes_max;
  static size_t memory_bytes(uint32_t entries_max) noexcept;
  // Of a detailed entry that is alone in its request: its key, and its caller's correlation id.
  static size_t lone_text_bytes(const api::Entry& entry) noexcept {
    return entry.key_bytes + limits::correlation_id_bytes_max;
  }
  static constexpr size_t lone_text_bytes_max =
      limits::key_bytes_max + limits::correlation_id_bytes_max;

  // `memory`, of memory_bytes(), reads as zero, and outlives the message.
  ShardMessage(uint32_t entries_max, std::byte* memory);

  // Whether a part with so many entries, and so much text, goes into this message.
  bool has_room(uint32_t entries_count, size_t text_bytes) const noexcept {
    return entries_count_ == 0 || (entries_count_ + entries_count <= entries_max_ &&
                                   text_bytes_ + text_bytes <= text_bytes_max);
  }
  // If not, it takes any one entry.
  bool is_full() const noexcept {
    return entries_count_ >= entries_max_ || text_bytes_ + lone_text_bytes_max > text_bytes_max;
  }
  // A part that has room; its entries follow.
  void begin_part(uint32_t split, Form form, uint32_t entries_count, bool is_whole) noexcept;
  // The plain entries of a part that is whole.
  void add(const KeyColumn& keys) noexcept;
  // Of one that is not: of all the request's keys those at these places. The text of each begins
  // there in the column.
  void add(const KeyColumn& keys, std::span<const uint32_t> begins,
           std::span<const uint16_t> places) noexcept;
  // The hashed entries of a part, and where each is in the request; nobody reads the places of a
  // part that is whole.
  void add(const api::HeldKeys& keys, std::span<const uint16_t> places) noexcept;
  // A detailed entry of the part. Copies its key, its overrides and its correlation id.
  void add(const api::Entry& entry, uint32_t place) noexcept;

  std::span<const Part> parts() const noexcept { return parts_; }
  std::span<const MessageRun> runs() const noexcept { return runs_; }
  uint32_t entries_count() const noexcept { return entries_count_; }

  // Of plain and hashed runs.
  std::string_view text_from(size_t begin) const noexcept {
    return {text_ + begin, text_bytes_ - begin};
  }
  std::span<const uint16_t> key_sizes(uint32_t first, uint32_t count) const noexcept {
    return {key_sizes_ + first, count};
  }
  // Of hashed runs.
  std::span<const api::KeyHash> hashes(uint32_t first, uint32_t count) const noexcept {
    return {hashes_ + first, count};
  }
  // Of detailed runs.
  std::span<api::Entry> entries(uint32_t first, uint32_t count) const noexcept {
    return {entries_ + first, count};
  }
  std::span<api::Detail> details(uint32_t first, uint32_t count) const noexcept {
    return {details_ + first, count};
  }
  std::span<api::WaiterId> waiters(uint32_t first, uint32_t count) const noexcept {
    return {waiters_ + first, count};
  }
  // Of all.
  std::span<api::Verdict> verdicts(uint32_t first, uint32_t count) const noexcept {
    return {verdicts_ + first, count};
  }
  // Where the entries of a part that is not whole are in their request.
  std::span<const uint16_t> places(uint32_t first, uint32_t count) const noexcept {
    return {places_ + first, count};
  }

  bool takes_notices() const noexcept { return notices.size() < entries_max_; }
  bool takes_grants() const noexcept { return grants.size() < entries_max_; }

  // It has returned, and its answers were taken out; the target has taken the handovers out.
  void clear() noexcept;

  std::vector<Notice> notices;
  std::vector<api::Grant> grants;
  std::vector<ShardTask> tasks;
  std::vector<Handover> handovers;

 private:
  char* take_text(size_t bytes) noexcept;

  const uint32_t entries_max_;  // likewise of notices and grants
  uint32_t entries_count_ = 0;
  size_t text_bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<MessageRun> runs_;
  char* text_;
  api::Entry* entries_;
  api::Overrides* overrides_;
  api::Detail* details_;
  api::KeyHash* hashes_;
  api::WaiterId* waiters_;
  uint16_t* key_sizes_;
  uint16_t* places_;
  api::Verdict* verdicts_;
};

}  // namespace sluice::route
