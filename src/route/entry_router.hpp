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
#include <span>
#include <string_view>
#include <vector>

#include "base/mapped_array.hpp"
#include "route/key_column.hpp"
#include "route/mailboxes.hpp"
#include "route/split_book.hpp"
#include "route/turn.hpp"

namespace sluice::route {

class EntryRouter {
 public:
  // `handles_max`: of this shard.
  EntryRouter(Mailboxes& mailboxes, Turn& turn, const SplitOptions& options, uint32_t handles_max);

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

  // A key has this handle from now on.
  void set_handle(api::Handle handle, std::string_view key) noexcept;
  bool owns(api::Handle handle) const noexcept {
    return mailboxes_.is_only_shard() || handle_owners_[handle] == here_;
  }
  // As has_room() in two steps, for plain entries of keys by handle: find_keys() has
  // `look_up(handles, held_keys)` find those of other shards, and returns the bytes of their text,
  // of which a message takes ShardMessage::text_bytes_max.
  template <typename LookUp>
  size_t find_keys(std::span<const api::Handle> handles, LookUp look_up) noexcept;
  bool found_have_room(size_t entries_count) const noexcept {
    return owners_have_room(static_cast<uint32_t>(entries_count), Form::hashed);
  }
  void add(Request request, std::span<const api::Handle> handles) noexcept;

  SplitBook& book() noexcept { return book_; }
  const SplitBook& book() const noexcept { return book_; }
  uint64_t other_shard_entries() const noexcept { return other_shard_entries_; }
  uint64_t reserved_bytes() const noexcept {
    return book_.reserved_bytes() + handle_owners_.reserved_bytes();
  }

 private:
  // What one shard is to decide of a request.
  struct Share {
    uint32_t entries_count = 0;
    size_t text_bytes = 0;  // at most
  };

  void forget_shares() noexcept;
  bool find_owners(const KeyColumn& keys, Form form) noexcept;
  void count_shares(uint32_t entries_count, size_t text_bytes) noexcept;
  bool owners_have_room(uint32_t entries_count, Form form) const noexcept;
  bool is_all_here() const noexcept { return owning_.size() == 1 && owning_[0] == here_; }
  SplitBook::Index open(const Request& request, Form form) noexcept;
  void end_parts() noexcept;

  Mailboxes& mailboxes_;
  Turn& turn_;
  const api::ShardId here_;
  SplitBook book_;
  std::vector<api::ShardId> owners_;                      // of the keys of the next request
  std::vector<Share> shares_;                             // of all shards
  std::vector<api::ShardId> owning_;                      // shards that have a share
  std::vector<ShardMessage*> messages_;                   // by shard, for the shares of others
  base::MappedArray<uint8_t> handle_owners_;              // by handle
  std::vector<api::Handle> own_handles_, other_handles_;  // of the next request
  std::vector<api::HeldKey> held_keys_;                   // of other_handles_
  uint64_t other_shard_entries_ = 0;
};

template <typename LookUp>
size_t EntryRouter::find_keys(std::span<const api::Handle> handles, LookUp look_up) noexcept {
  forget_shares();
  own_handles_.clear();
  other_handles_.clear();
  for (size_t i = 0; i < handles.size(); ++i) {
    owners_[i] = handle_owners_[handles[i]];
    (owners_[i] == here_ ? own_handles_ : other_handles_).push_back(handles[i]);
  }
  look_up(std::span<const api::Handle>(other_handles_), std::span<api::HeldKey>(held_keys_));
  size_t text_bytes = 0;
  for (const api::HeldKey& key : std::span(held_keys_).first(other_handles_.size())) {
    text_bytes += key.bytes;
  }
  count_shares(static_cast<uint32_t>(handles.size()), text_bytes);
  return text_bytes;
}

}  // namespace sluice::route
