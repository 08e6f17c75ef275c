#include "route/entry_router.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::route {
namespace {

// As many parts as may be under way.
uint32_t requests_max(const Mailboxes& mailboxes) noexcept {
  return (mailboxes.shards_count() - 1) * mailboxes.pair_entries_max();
}

}  // namespace

EntryRouter::EntryRouter(Mailboxes& mailboxes, Turn& turn, const SplitOptions& options,
                         uint32_t handles_max)
    : mailboxes_(mailboxes),
      turn_(turn),
      here_(mailboxes.shard()),
      book_(mailboxes.shards_count(), requests_max(mailboxes), options),
      owners_(limits::frame_entries_max),
      shares_(mailboxes.shards_count()),
      messages_(mailboxes.shards_count()),
      handle_owners_(mailboxes.is_only_shard() ? 0 : handles_max, "handles (--max-handles)"),
      held_keys_(mailboxes.is_only_shard() ? 0 : limits::frame_entries_max) {
  static_assert(Senders::shards_max <= 256, "an owner is a byte");
  owning_.reserve(mailboxes.shards_count());
  own_handles_.reserve(held_keys_.size());
  other_handles_.reserve(held_keys_.size());
}

void EntryRouter::forget_shares() noexcept {
  for (const api::ShardId shard : owning_) shares_[shard] = {};
  owning_.clear();
}

// Flattened: the hash of a short key is a few dozen instructions.
[[gnu::flatten]] bool EntryRouter::find_owners(const KeyColumn& keys, Form form) noexcept {
  forget_shares();
  const auto count = static_cast<uint32_t>(keys.sizes.size());
  const char* key = keys.text.data();
  api::ShardId* const owners = owners_.data();
  uint32_t differing = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint16_t size = keys.sizes[i];
    // The empty key, which is not valid, has no owner.
    owners[i] = size == 0 ? here_ : mailboxes_.owner_of({key, size}).shard;
    differing |= owners[i] ^ owners[0];
    key += size;
  }
  if (differing != 0) {
    count_shares(count, keys.text.size());
  } else if (count > 0) {
    // Most frames of clients that route: nothing to count.
    owning_.push_back(owners_[0]);
    shares_[owners_[0]] = {.entries_count = count, .text_bytes = keys.text.size()};
  }
  return owners_have_room(count, form);
}

// By `owners_`. All text counts for each shard: to add up sizes would cost as much as the counting.
void EntryRouter::count_shares(uint32_t entries_count, size_t text_bytes) noexcept {
  for (uint32_t i = 0; i < entries_count; ++i) {
    Share& share = shares_[owners_[i]];
    if (share.entries_count++ > 0) continue;
    share.text_bytes = text_bytes;
    owning_.push_back(owners_[i]);
  }
}

bool EntryRouter::owners_have_room(uint32_t entries_count, Form form) const noexcept {
  bool has_room = true;
  for (const api::ShardId owner : owning_) {
    if (owner == here_) continue;
    const Share& share = shares_[owner];
    const bool takes_entries =
        mailboxes_.target(owner).has_room(share.entries_count, share.text_bytes) &&
        (owning_.size() == 1 || book_.has_room(owner, entries_count, form));
    if (!takes_entries) mailboxes_.await_room(owner);
    has_room &= takes_entries;
  }
  return has_room;
}

// Opens the messages of all owners, and a request in the book.
SplitBook::Index EntryRouter::open(const Request& request, Form form) noexcept {
  const bool is_whole = owning_.size() == 1;
  const SplitBook::Index split = book_.open(request, form, is_whole);
  for (const api::ShardId owner : owning_) {
    if (owner == here_) continue;
    const Share& share = shares_[owner];
    ShardMessage& message = mailboxes_.open(owner, share.entries_count, share.text_bytes);
    message.begin_part(split, form, share.entries_count, is_whole);
    messages_[owner] = &message;
    book_.add_part(split, owner);
    other_shard_entries_ += share.entries_count;
  }
  return split;
}

void EntryRouter::end_parts() noexcept {
  for (const api::ShardId owner : owning_) {
    if (owner != here_) mailboxes_.target(owner).end_part();
  }
}

void EntryRouter::add(Request request, const KeyColumn& keys) noexcept {
  const auto count = static_cast<uint32_t>(keys.sizes.size());
  if (mailboxes_.is_only_shard() || count == 0 || is_all_here()) {
    fill_entries(turn_.add(request, count), keys.text.data(), keys.sizes);
    return;
  }
  request.entries_count = count;
  request.split = open(request, Form::plain);
  std::span<api::Entry> own;
  std::span<uint16_t> own_places;
  if (const uint32_t own_count = shares_[here_].entries_count; own_count > 0) {
    own = turn_.add(request, own_count);
    own_places = turn_.places().last(own_count);
  }
  // Neighbours of one owner go together.
  const char* text = keys.text.data();
  for (uint32_t first = 0, end = 0; first < count; first = end) {
    const api::ShardId owner = owners_[first];
    size_t bytes = 0;
    do {
      bytes += keys.sizes[end++];
    } while (end < count && owners_[end] == owner);
    const KeyColumn series{.text = {text, bytes}, .sizes = keys.sizes.subspan(first, end - first)};
    text += bytes;
    if (owner != here_) {
      messages_[owner]->add(series, first);
      continue;
    }
    fill_entries(own.first(series.sizes.size()), series.text.data(), series.sizes);
    own = own.subspan(series.sizes.size());
    for (uint32_t place = first; place < end; ++place) {
      own_places[place - first] = static_cast<uint16_t>(place);
    }
    own_places = own_places.subspan(series.sizes.size());
  }
  end_parts();
}

void EntryRouter::send_last() noexcept {
  if (mailboxes_.is_only_shard()) return;
  Request& request = turn_.last_request();
  if (request.entries_count == 0 || is_all_here()) return;
  request.split = open(request, Form::detailed);
  uint32_t stay = 0;
  for (uint32_t place = 0; place < request.entries_count; ++place) {
    const api::ShardId owner = owners_[place];
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
  if (mailboxes_.is_only_shard()) return;
  handle_owners_[handle] = static_cast<uint8_t>(mailboxes_.owner_of(key).shard);
}

void EntryRouter::add(Request request, std::span<const api::Handle> handles) noexcept {
  if (other_handles_.empty()) return turn_.add(request, handles);
  const auto count = static_cast<uint32_t>(handles.size());
  request.entries_count = count;
  request.split = open(request, Form::hashed);
  std::span<uint16_t> own_places;
  if (!own_handles_.empty()) {
    turn_.add(request, own_handles_);
    own_places = turn_.places().last(own_handles_.size());
  }
  const api::HeldKey* key = held_keys_.data();
  size_t own = 0;
  for (uint32_t place = 0; place < count; ++place) {
    if (owners_[place] == here_) {
      own_places[own++] = static_cast<uint16_t>(place);
    } else {
      messages_[owners_[place]]->add(*key++, place);
    }
  }
  end_parts();
}

bool EntryRouter::has_lone_room(std::string_view key) noexcept {
  if (!mailboxes_.is_any_full()) return true;
  const api::ShardId owner = mailboxes_.owner_of(key).shard;
  if (owner == here_ || mailboxes_.target(owner).has_room(1, key.size())) return true;
  mailboxes_.await_room(owner);
  return false;
}

void EntryRouter::send_lone() noexcept {
  if (mailboxes_.is_only_shard()) return;
  const Request& request = turn_.last_request();
  const api::Entry& entry = turn_.entries()[request.first_entry];
  const api::ShardId owner = mailboxes_.owner_of(entry.key()).shard;
  if (owner == here_) return;
  forget_shares();
  owners_[0] = owner;
  owning_.push_back(owner);
  shares_[owner] = {.entries_count = 1, .text_bytes = entry.key_bytes};
  send_last();
}

}  // namespace sluice::route
