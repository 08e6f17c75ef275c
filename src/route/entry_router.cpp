#include "route/entry_router.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::route {
EntryRouter::EntryRouter(Mailboxes& mailboxes, Turn& turn, const SplitOptions& options,
                         uint32_t handles_max)
    : mailboxes_(mailboxes),
      turn_(turn),
      here_(mailboxes.shard()),
      book_(mailboxes.targets_count(), mailboxes.lent_entries_max(), options),
      groups_(mailboxes.targets_count(), here_),
      begins_(limits::frame_entries_max),
      messages_(mailboxes.targets_count()),
      handle_owners_(mailboxes.is_only_target() ? 0 : handles_max, "handles (--max-handles)"),
      held_text_(mailboxes.is_only_target() ? 0 : ShardMessage::text_bytes_max,
                 "keys of handles for other shards"),
      held_sizes_(mailboxes.is_only_target() ? 0 : limits::frame_entries_max),
      held_hashes_(held_sizes_.size()) {
  other_handles_.reserve(held_sizes_.size());
}

// Flattened: the hash of a short key is a few dozen instructions.
[[gnu::flatten]] void EntryRouter::find_targets(const KeyColumn& keys, Reach reach) noexcept {
  const auto owners = groups_.owners();
  if (reach == Reach::fleet && !mailboxes_.nodes().is_alone()) {
    return mailboxes_.nodes().find_targets(keys, owners);
  }
  const char* key = keys.text.data();
  for (size_t i = 0; i < keys.sizes.size(); ++i) {
    owners[i] = mailboxes_.shard_of({key, keys.sizes[i]});
    key += keys.sizes[i];
  }
}

bool EntryRouter::find_owners(const KeyColumn& keys, Form form, Reach reach) noexcept {
  const auto count = static_cast<uint32_t>(keys.sizes.size());
  if (reach == Reach::node && mailboxes_.is_only_shard()) {
    groups_.group_as_one(here_, count);  // another node has asked
    return true;
  }
  find_targets(keys, reach);
  TargetId* const owners = groups_.owners().data();
  const TargetId here = here_;
  uint32_t differing = 0;
  for (uint32_t i = 0; i < count; ++i) {
    // The empty key, which is not valid, has no owner.
    owners[i] = keys.sizes[i] == 0 ? here : owners[i];
    differing |= owners[i] ^ owners[0];
  }
  if (differing != 0 || count == 0) {
    groups_.group(count);
  } else {
    groups_.group_as_one(groups_.owner_of(0), count);  // as in most frames of clients that route
  }
  // All text counts for each shard: to add up sizes would cost as much as the copying.
  for (const TargetId owner : groups_.owning()) {
    groups_.share_of(owner).text_bytes = keys.text.size();
  }
  return find_room_of_owners(count, form);
}

bool EntryRouter::find_room_of_owners(uint32_t entries_count, Form form) noexcept {
  bool has_room = true;
  for (const TargetId owner : groups_.owning()) {
    if (owner == here_ || takes_share(owner, entries_count, form)) continue;
    mailboxes_.await_room(owner);
    has_room = false;
  }
  return has_room;
}

// `entries_count`: of the whole request.
bool EntryRouter::takes_share(TargetId owner, uint32_t entries_count, Form form) noexcept {
  const OwnerGroups::Share& share = groups_.share_of(owner);
  if (!mailboxes_.target(owner).has_room(share.entries_count, share.text_bytes)) {
    ++refusals_.no_message;
    return false;
  }
  if (groups_.is_one() || book_.has_room(owner, entries_count, form)) return true;
  ++refusals_.no_answer_room;
  return false;
}

// Opens the messages of all owners, and a request in the book.
SplitBook::Index EntryRouter::open(const Request& request, Form form) noexcept {
  const bool is_whole = groups_.is_one();
  const SplitBook::Index split = book_.open(request, form, is_whole);
  for (const TargetId owner : groups_.owning()) {
    if (owner == here_) continue;
    const OwnerGroups::Share& share = groups_.share_of(owner);
    ShardMessage& message = mailboxes_.open(owner, share.entries_count, share.text_bytes);
    message.begin_part(split, form, share.entries_count, is_whole);
    messages_[owner] = &message;
    book_.add_part(split, owner);
    other_shard_entries_ += share.entries_count;
  }
  return split;
}

void EntryRouter::end_parts() noexcept {
  for (const TargetId owner : groups_.owning()) {
    if (owner != here_) mailboxes_.target(owner).end_part();
  }
}

void EntryRouter::add(Request request, const KeyColumn& keys) noexcept {
  const auto count = static_cast<uint32_t>(keys.sizes.size());
  if (mailboxes_.is_only_target() || count == 0 || groups_.is_all_here()) {
    fill_entries(turn_.add(request, count), keys.text.data(), keys.sizes);
    return;
  }
  request.entries_count = count;
  request.split = open(request, Form::plain);
  if (groups_.is_one()) {
    messages_[groups_.owning()[0]]->add(keys);
  } else {
    find_begins(keys.sizes);
    for (const TargetId owner : groups_.owning()) {
      if (owner == here_) {
        add_own(request, keys);
      } else {
        messages_[owner]->add(keys, begins_, groups_.places_of(owner));
      }
    }
  }
  end_parts();
}

// Of the text of each key.
void EntryRouter::find_begins(std::span<const uint16_t> sizes) noexcept {
  uint32_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) begins_[i] = std::exchange(begin, begin + sizes[i]);
}

// The keys of this shard join the turn.
void EntryRouter::add_own(const Request& request, const KeyColumn& keys) noexcept {
  const auto places = groups_.places_of(here_);
  const auto entries = turn_.add(request, static_cast<uint32_t>(places.size()));
  for (size_t i = 0; i < places.size(); ++i) {
    const uint16_t place = places[i];
    entries[i] = {.key_data = keys.text.data() + begins_[place], .key_bytes = keys.sizes[place]};
  }
  std::copy(places.begin(), places.end(), turn_.places().last(places.size()).begin());
}

void EntryRouter::send_last() noexcept {
  if (mailboxes_.is_only_target()) return;
  Request& request = turn_.last_request();
  if (request.entries_count == 0 || groups_.is_all_here()) return;
  request.split = open(request, Form::detailed);
  uint32_t stay = 0;
  for (uint32_t place = 0; place < request.entries_count; ++place) {
    const TargetId owner = groups_.owner_of(place);
    if (owner == here_) {
      turn_.move_in_last(place, stay++);
    } else {
      messages_[owner]->add(turn_.entries()[request.first_entry + place], place);
    }
  }
  turn_.shrink_last(stay);
  end_parts();
}

void EntryRouter::set_handle(api::Handle handle, std::string_view key) noexcept {
  if (mailboxes_.is_only_target()) return;
  const NodeMap& nodes = mailboxes_.nodes();
  handle_owners_[handle] =
      nodes.owns(key) ? mailboxes_.shard_of(key) : nodes.first_target(nodes.node_of(key));
}

// Whether all are this shard's; then nothing has to be grouped.
bool EntryRouter::find_handle_owners(std::span<const api::Handle> handles) noexcept {
  TargetId* const owners = groups_.owners().data();
  const TargetId here = here_;
  uint32_t differing = 0;
  for (size_t i = 0; i < handles.size(); ++i) {
    owners[i] = handle_owners_[handles[i]];
    differing |= owners[i] ^ here;
  }
  if (differing != 0) return false;
  groups_.group_as_one(here, static_cast<uint32_t>(handles.size()));
  return true;
}

// Of the keys that were looked up.
void EntryRouter::share_text() noexcept {
  const uint16_t* size = held_sizes_.data();
  for (const TargetId owner : groups_.owning()) {
    if (owner == here_) continue;
    OwnerGroups::Share& share = groups_.share_of(owner);
    const uint16_t* const end = size + share.entries_count;
    share.text_bytes = std::accumulate(size, end, size_t{0});
    size = end;
  }
}

void EntryRouter::add(Request request, std::span<const api::Handle> handles) noexcept {
  if (other_handles_.empty()) return turn_.add(request, handles);
  request.entries_count = static_cast<uint32_t>(handles.size());
  request.split = open(request, Form::hashed);
  size_t first = 0, text_begin = 0;
  for (const TargetId owner : groups_.owning()) {
    const auto places = groups_.places_of(owner);
    if (owner == here_) {
      turn_.add(request, handles, places);
      continue;
    }
    const size_t text_bytes = groups_.share_of(owner).text_bytes;
    messages_[owner]->add({.text = held_text_.slice(text_begin, text_bytes),
                           .sizes = std::span(held_sizes_).subspan(first, places.size()),
                           .hashes = std::span(held_hashes_).subspan(first, places.size())},
                          places);
    first += places.size();
    text_begin += text_bytes;
  }
  end_parts();
}

bool EntryRouter::find_lone_room(const api::Entry& entry) noexcept {
  if (!mailboxes_.is_any_full()) return true;
  const TargetId owner = mailboxes_.target_of(entry.key(), reach_of(entry));
  if (owner == here_ ||
      mailboxes_.target(owner).has_room(1, ShardMessage::lone_text_bytes(entry))) {
    return true;
  }
  ++refusals_.no_message;
  mailboxes_.await_room(owner);
  return false;
}

void EntryRouter::send_lone() noexcept {
  if (mailboxes_.is_only_target()) return;
  const Request& request = turn_.last_request();
  const api::Entry& entry = turn_.entries()[request.first_entry];
  const TargetId owner = mailboxes_.target_of(entry.key(), reach_of(entry));
  if (owner == here_) return;
  groups_.owners()[0] = owner;
  groups_.group_as_one(owner, 1);
  groups_.share_of(owner).text_bytes = ShardMessage::lone_text_bytes(entry);
  send_last();
}

}  // namespace sluice::route
