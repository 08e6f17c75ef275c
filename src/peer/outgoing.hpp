// A message on its way to another node, and what is left of its answers.
// Lives:  belongs to its PeerTarget; a Link refers to it while it waits for answers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "route/shard_message.hpp"

namespace sluice::peer {

struct Outgoing {
  Outgoing(uint32_t entries_max, std::byte* memory) : message(entries_max, memory) {}

  enum class Stage : uint8_t {
    awaited,    // it gathers entries, or the owner's answers are written into it
    given_up,   // the owner took too long: the policy has answered, and what the owner still
                // answers is for nobody, and not written into the message
    delivered,  // likewise, and the requests have the policy's answers: it is free once the owner
                // has answered all of it, or is lost
  };

  bool is_given_up() const noexcept { return stage != Stage::awaited; }

  Stage stage = Stage::awaited;
  // While it is under way, an entry without an answer has Verdict::none.
  route::ShardMessage message;
  uint32_t unanswered_count = 0;  // entries
  int64_t opened_ms = 0;          // when its first entry joined
  // Shards of this node that have still to decide entries which the owner has left undecided.
  uint32_t stand_ins_left = 0;

  // A waiter's owner is a shard of this node, then, as for an entry that stays here.
  void keep_stand_in(uint32_t entry, api::Verdict verdict, const api::Detail& detail,
                     api::WaiterId waiter) noexcept {
    message.verdicts(entry, 1)[0] = verdict;
    message.details(entry, 1)[0] = detail;
    message.waiters(entry, 1)[0] = waiter;
    message.entries(entry, 1)[0].flags |= api::flag::stays_here;  // of a plain one nobody reads it
  }
};

}  // namespace sluice::peer
