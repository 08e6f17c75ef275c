// Brings each entry of a request to the shard that owns its key, on this node or another.
// Flow:   find_room() finds the owners of a request's keys -> add() of plain entries, or
//         Turn::add() and send_last() of detailed ones -> this shard's stay in the turn, the others
//         go into messages. The book gathers the answers.
// Errors: find_room() is false while an owner takes no more, or has its share of the room for
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
#include "route/owner_groups.hpp"
#include "route/split_book.hpp"
#include "route/turn.hpp"

namespace sluice::route {

// How often a request found no room at a target.
struct RoomRefusals {
  uint64_t no_message = 0;      // the target had not returned one yet
  uint64_t no_answer_room = 0;  // requests that wait for the target have its share of the book
};

class EntryRouter {
 public:
  // `handles_max`: of this shard.
  EntryRouter(Mailboxes& mailboxes, Turn& turn, const SplitOptions& options, uint32_t handles_max);

  // Whether a request with these keys may join the turn. If so, it is the next to do that; if not,
  // Mailboxes::take_room_made() says when to ask again.
  bool find_room(const KeyColumn& keys, Form form, Reach reach = Reach::fleet) noexcept {
    return mailboxes_.is_only_target() || find_owners(keys, form, reach);
  }
  // The same of a request with one detailed entry.
  bool find_lone_room(const api::Entry& entry) noexcept;

  // A request of plain entries joins; it has room.
  void add(Request request, const KeyColumn& keys) noexcept;
  // The turn's last request has detailed entries: those of other shards leave the turn.
  void send_last() noexcept;
  // The same of a request with one entry, for which find_lone_room() was true.
  void send_lone() noexcept;

  // A key has this handle from now on.
  void set_handle(api::Handle handle, std::string_view key) noexcept;
  bool owns(api::Handle handle) const noexcept {
    return mailboxes_.is_only_target() || handle_owners_[handle] == here_;
  }
  // As find_room() in two steps, for plain entries of keys by handle: find_keys() has
  // `look_up(handles, held_keys)` write those of other shards, and returns the bytes of their text.
  // If these are more than ShardMessage::text_bytes_max, the request cannot join.
  template <typename LookUp>
  size_t find_keys(std::span<const api::Handle> handles, LookUp look_up) noexcept;
  bool find_room_for_keys(size_t entries_count) noexcept {
    return find_room_of_owners(static_cast<uint32_t>(entries_count), Form::hashed);
  }
  void add(Request request, std::span<const api::Handle> handles) noexcept;

  SplitBook& book() noexcept { return book_; }
  const SplitBook& book() const noexcept { return book_; }
  uint64_t other_shard_entries() const noexcept { return other_shard_entries_; }
  const RoomRefusals& refusals() const noexcept { return refusals_; }
  uint64_t reserved_bytes() const noexcept {
    return book_.reserved_bytes() + handle_owners_.reserved_bytes() + held_text_.reserved_bytes();
  }

 private:
  bool find_owners(const KeyColumn& keys, Form form, Reach reach) noexcept;
  void find_targets(const KeyColumn& keys, Reach reach) noexcept;
  bool find_handle_owners(std::span<const api::Handle> handles) noexcept;
  template <typename LookUp>
  void find_targets_of_nodes(std::span<const api::Handle> handles, LookUp look_up) noexcept;
  api::HeldKeys held_keys() noexcept {
    return {.text = held_text_.slice(0, held_text_.size()),
            .sizes = held_sizes_,
            .hashes = held_hashes_};
  }
  bool find_room_of_owners(uint32_t entries_count, Form form) noexcept;
  bool takes_share(TargetId owner, uint32_t entries_count, Form form) noexcept;
  SplitBook::Index open(const Request& request, Form form) noexcept;
  void end_parts() noexcept;
  void find_begins(std::span<const uint16_t> sizes) noexcept;
  void add_own(const Request& request, const KeyColumn& keys) noexcept;
  void share_text() noexcept;

  Mailboxes& mailboxes_;
  Turn& turn_;
  const api::ShardId here_;
  SplitBook book_;
  OwnerGroups groups_;                         // of the next request
  std::vector<uint32_t> begins_;               // of the text of its keys
  std::vector<ShardMessage*> messages_;        // by target, for the shares of others
  base::MappedArray<TargetId> handle_owners_;  // by handle; a node's first target
  // Of the keys of other shards in the next request, owner by owner.
  std::vector<api::Handle> other_handles_;
  base::MappedArray<char> held_text_;
  std::vector<uint16_t> held_sizes_;
  std::vector<api::KeyHash> held_hashes_;
  uint64_t other_shard_entries_ = 0;
  RoomRefusals refusals_;
};

template <typename LookUp>
size_t EntryRouter::find_keys(std::span<const api::Handle> handles, LookUp look_up) noexcept {
  other_handles_.clear();
  if (find_handle_owners(handles)) return 0;  // as in most frames of clients that route
  if (!mailboxes_.nodes().is_alone()) find_targets_of_nodes(handles, look_up);
  groups_.group(static_cast<uint32_t>(handles.size()));
  other_handles_.clear();
  for (const uint16_t place : groups_.other_places()) other_handles_.push_back(handles[place]);
  const api::HeldKeys keys = held_keys();
  const size_t text_bytes = look_up(std::span<const api::Handle>(other_handles_), keys);
  if (text_bytes <= keys.text.size()) share_text();
  return text_bytes;
}

// How many shards another node has, and whether this one stands in for it, may have changed since a
// key got its handle.
template <typename LookUp>
void EntryRouter::find_targets_of_nodes(std::span<const api::Handle> handles,
                                        LookUp look_up) noexcept {
  const auto owners = groups_.owners().first(handles.size());
  const uint32_t shards_count = mailboxes_.shards_count();
  other_handles_.clear();
  for (size_t i = 0; i < handles.size(); ++i) {
    if (owners[i] >= shards_count) other_handles_.push_back(handles[i]);
  }
  const api::HeldKeys keys = held_keys();
  const size_t text_bytes = look_up(std::span<const api::Handle>(other_handles_), keys);
  if (text_bytes > keys.text.size()) return;  // the request cannot join
  const char* key = keys.text.data();
  size_t other = 0;
  for (TargetId& owner : owners) {
    if (owner < shards_count) continue;
    const uint16_t bytes = keys.sizes[other++];
    owner = mailboxes_.target_of({key, bytes}, Reach::fleet);
    key += bytes;
  }
}

}  // namespace sluice::route
