// What one shard sends another in one turn, and the answers that return in it.
// Flow:   its origin fills it -> the target decides and writes the answers into it -> it returns to
//         its origin, which takes the answers out and uses it again.
// Shape:  parallel arrays for the entries; lists for everything else. Keys' bytes and
//         overrides lie in the origin's SplitBook, connections' bytes in the Handover.
// Units:  as in api/.
// Lives:  belongs to its origin, which lends it to the target and does not touch it until it
//         returns. Its lists have their memory from the start, but those of tasks and handovers,
//         which are off the request path.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/assert.hpp"

namespace sluice::server {

struct QuotaTask;
struct ShardQuery;

}  // namespace sluice::server

namespace sluice::route {

// A request of one shard to another that is no entry; lent like the message that carries it, which
// never reads it.
using ShardTask = std::variant<server::ShardQuery*, server::QuotaTask*>;

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

struct ShardMessage {
  explicit ShardMessage(uint32_t capacity) : entries_max(capacity) {
    entries.reserve(entries_max);
    slots.reserve(entries_max);
    verdicts.reserve(entries_max);
    details.reserve(entries_max);
    waiters.reserve(entries_max);
    notices.reserve(entries_max);
    grants.reserve(entries_max);
  }

  void clear() noexcept {
    entries.clear();
    slots.clear();
    notices.clear();
    grants.clear();
    tasks.clear();
    // The target has taken the handovers out.
  }

  uint64_t reserved_bytes() const noexcept {
    return entries_max *
           (sizeof(api::Entry) + sizeof(uint32_t) + sizeof(api::Verdict) + sizeof(api::Detail) +
            sizeof(api::WaiterId) + sizeof(Notice) + sizeof(api::Grant));
  }

  // The answers' arrays, made as long as the entries.
  void make_answers() noexcept {
    verdicts.resize(entries.size());
    details.resize(entries.size());
    waiters.resize(entries.size());
  }

  const uint32_t entries_max;  // likewise of notices and grants
  std::vector<api::Entry> entries;
  std::vector<uint32_t> slots;  // of the entries, in the origin's SplitBook
  std::vector<api::Verdict> verdicts;
  std::vector<api::Detail> details;
  std::vector<api::WaiterId> waiters;
  std::vector<Notice> notices;
  std::vector<api::Grant> grants;
  std::vector<ShardTask> tasks;
  std::vector<Handover> handovers;
};

}  // namespace sluice::route
