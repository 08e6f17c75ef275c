// Brings each entry of a request to the shard that owns its key.
// Flow:   has_room() finds the owners of a request's keys -> add() of plain entries, or Turn::add()
//         and send_last() of detailed ones -> this shard's stay in the turn, the others go into
//         messages. The book gathers the answers.
// Errors: has_room() is false while an owner takes no more, or has its share of the room for
//         answers. Then only requests for that owner wait.
// Lives:  one thread only. On the path of every request of a server with several shards; a lone
//         shard never comes here but for the first test of each function.
#pragma once

#include <cstdint>
#include <vector>

#include "route/key_column.hpp"
#include "route/mailboxes.hpp"
#include "route/split_book.hpp"
#include "route/turn.hpp"

namespace sluice::route {

class EntryRouter {
 public:
  EntryRouter(Mailboxes& mailboxes, Turn& turn, const SplitOptions& options);

  // Whether a request with these keys may join the turn. If so, it is the next to do that.
  bool has_room(const KeyColumn& keys, Form form) noexcept {
    return mailboxes_.is_only_shard() || find_owners(keys, form);
  }
  // Whether a request with one detailed entry has room.
  bool has_lone_room(std::string_view key) noexcept;

  // A request of plain entries joins; it has room.
  void add(Request request, const KeyColumn& keys) noexcept;
  // The turn's last request has detailed entries: those of other shards leave the turn.
  void send_last() noexcept;
  // The same of a request with one entry, for which has_lone_room() was true.
  void send_lone() noexcept;

  SplitBook& book() noexcept { return book_; }
  const SplitBook& book() const noexcept { return book_; }
  uint64_t other_shard_entries() const noexcept { return other_shard_entries_; }

 private:
  // What one shard is to decide of a request.
  struct Share {
    uint32_t entries_count = 0;
    size_t text_bytes = 0;
  };

  bool find_owners(const KeyColumn& keys, Form form) noexcept;
  void count_shares(std::span<const uint16_t> key_sizes) noexcept;
  bool owners_have_room(uint32_t entries_count, Form form) const noexcept;
  bool is_all_here() const noexcept { return owning_.size() == 1 && owning_[0] == here_; }
  SplitBook::Index open(const Request& request, Form form) noexcept;
  void end_parts() noexcept;

  Mailboxes& mailboxes_;
  Turn& turn_;
  const api::ShardId here_;
  SplitBook book_;
  std::vector<api::ShardId> owners_;     // of the keys of the next request
  std::vector<Share> shares_;            // of all shards
  std::vector<api::ShardId> owning_;     // shards that have a share
  std::vector<ShardMessage*> messages_;  // by shard, for the shares of others
  uint64_t other_shard_entries_ = 0;
};

}  // namespace sluice::route
