// Requests of which other shards decide all or a part, until all their parts have returned.
// Flow:   open(), add_part() for each other shard that decides some entries -> keep_own() -> keep()
//         for each part that has returned; with the last one the request is complete: answers() ->
//         close().
// Shape:  the answers to a request that one shard decides as a whole stay in the message; others
//         are gathered in a block of memory, in the order of the request.
// Errors: has_room() is false when a shard has its share; the request must not join the turn then.
// Bounds: as many requests as messages have parts. Blocks: `answer_bytes_max` for the requests that
//         wait for one target, so that one that stands still takes no room from the others; but any
//         one request has room.
// Lives:  one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/object_pool.hpp"
#include "route/answer_blocks.hpp"
#include "route/node_map.hpp"
#include "route/shard_message.hpp"
#include "route/turn.hpp"

namespace sluice::route {

struct SplitOptions {
  uint32_t answer_bytes_max = 0;  // for each other target; 0: by their number
};

class SplitBook {
 public:
  using Index = uint32_t;  // of a request

  // `requests_max`: how many parts may be under way.
  SplitBook(uint32_t targets_count, uint32_t requests_max, const SplitOptions& options);
  SplitBook(const SplitBook&) = delete;
  SplitBook& operator=(const SplitBook&) = delete;

  // Whether a request of so many entries may wait for `target` and other shards; the caller asks
  // for each target. A request that one shard decides as a whole needs no room.
  bool has_room(TargetId target, uint32_t entries_count, Form form) const noexcept {
    const size_t waiting_bytes = waiting_bytes_[target];
    return waiting_bytes == 0 ||
           waiting_bytes + block_bytes(entries_count, form) <= answer_bytes_max_;
  }

  // `is_whole`: one shard decides it.
  Index open(const Request& request, Form form, bool is_whole) noexcept;
  // Another shard decides some entries: the request waits for it.
  void add_part(Index split, TargetId target) noexcept;

  // Takes over the answers of a part; returns whether the request is complete now.
  bool keep(TargetId target, const Part& part, const ShardMessage& message) noexcept;
  // The same of the entries that this shard has decided: `own` is in the turn. Parts of other
  // shards are still to return.
  void keep_own(const Request& own, Turn& turn) noexcept;

  struct Answers {
    Request request;
    std::span<api::Entry> entries;  // none of plain ones
    std::span<api::Verdict> verdicts;
    std::span<api::Detail> details;  // none of plain ones
  };
  // Of a complete request; `part` in `message` was its last.
  Answers answers(const Part& part, const ShardMessage& message) noexcept;

  // The request was delivered.
  void close(Index split) noexcept;

  uint32_t open_count() const noexcept { return splits_.used(); }
  uint64_t reserved_bytes() const noexcept;
  // Whether a request of this session with this id is open. Searches all open requests.
  bool holds(uint32_t session, uint32_t generation, uint64_t id) const noexcept;
  // For tests: blocks count once for each shard that their requests wait for.
  uint64_t waiting_bytes() const noexcept;
  const Request& request(Index split) const noexcept { return splits_[split].request; }

 private:
  struct Split {
    Request request;
    Form form;
    uint32_t parts_left = 0;
    std::byte* block = nullptr;  // null: its answers stay in the message
  };

  static size_t answer_bytes(uint32_t entries_count, Form form) noexcept;
  static size_t block_bytes(uint32_t entries_count, Form form) noexcept {
    return AnswerBlocks::block_bytes(answer_bytes(entries_count, form));
  }
  static Answers answers_in_block(const Split& split) noexcept;

  const size_t answer_bytes_max_;
  base::ObjectPool<Split> splits_;
  AnswerBlocks blocks_;
  std::vector<size_t> waiting_bytes_;  // by target: blocks of requests that wait for it
};

}  // namespace sluice::route
