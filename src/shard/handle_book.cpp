#include "shard/handle_book.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/short_copy.hpp"

namespace sluice::shard {
namespace {

// How many names are prefetched ahead of the one that is read, and half as many long texts.
constexpr size_t names_ahead = 64;

}  // namespace

HandleBook::HandleBook(uint32_t handles_max, uint32_t key_bytes_max)
    : handle_slots_(handles_max, "handles (--max-handles)"),
      names_(handles_max, "handles (--max-handles)"),
      table_(handles_max, key_bytes_max) {
  handle_slots_.advise_huge();
  names_.advise_huge();
}

api::Handle HandleBook::intern(const KeyHash& hash, std::string_view key) noexcept {
  Place place = table_.find(hash);
  if (!place) {
    place = table_.insert(hash, key);
    if (!place) return api::no_handle;
    const api::Handle handle = take_number();
    place.bucket->words[place.slot] = handle;
    names_[handle] = name_of(hash, key, table_.text_reference(place));
    ASSERT(handle_slots_[handle].references == 0);
    handle_slot(handle).set_vacant();
  }
  const auto handle = static_cast<api::Handle>(place.bucket->words[place.slot]);
  ++handle_slots_[handle].references;
  return handle;
}

// There are as many numbers as the table has room for keys.
api::Handle HandleBook::take_number() noexcept {
  if (free_ == api::no_handle) return fresh_++;
  const api::Handle handle = free_;
  free_ = names_[handle].position;
  return handle;
}

void HandleBook::drop_reference(api::Handle handle) noexcept {
  ASSERT(holds(handle));
  if (--handle_slots_[handle].references > 0) return;
  ASSERT(handle_slot(handle).is_vacant());
  table_.erase(table_.find(hash(handle)));
  names_[handle] = {.tag = 0, .position = free_, .text = {}, .text_bytes = 0};
  free_ = handle;
}

HandleBook::Name HandleBook::name_of(const KeyHash& hash, std::string_view key,
                                     KeyText::Reference reference) noexcept {
  Name name{.tag = hash.tag, .position = hash.position, .text = {}, .text_bytes = Name::is_long};
  if (key.size() > name.text.size()) {
    std::memcpy(name.text.data(), &reference, sizeof reference);
  } else {
    std::copy(key.begin(), key.end(), name.text.begin());
    name.text_bytes = static_cast<uint8_t>(key.size());
  }
  return name;
}

KeyText::Reference HandleBook::long_text(const Name& name) noexcept {
  KeyText::Reference reference;
  std::memcpy(&reference, name.text.data(), sizeof reference);
  return reference;
}

std::string_view HandleBook::text(const Name& name) const noexcept {
  if (name.text_bytes == Name::is_long) return table_.texts().text(long_text(name));
  return {name.text.data(), name.text_bytes};
}

std::string_view HandleBook::key(api::Handle handle) const noexcept {
  DEBUG_ASSERT(holds(handle));
  return text(names_[handle]);
}

size_t HandleBook::look_up(std::span<const api::Handle> handles,
                           const api::HeldKeys& keys) const noexcept {
  ASSERT(keys.sizes.size() >= handles.size() && keys.hashes.size() >= handles.size());
  for (const api::Handle handle : handles.first(std::min(names_ahead, handles.size()))) {
    __builtin_prefetch(&names_[handle]);
  }
  size_t bytes = 0;
  for (size_t at = 0; at < handles.size(); ++at) {
    const size_t last = handles.size() - 1;
    __builtin_prefetch(&names_[handles[std::min(at + names_ahead, last)]]);
    const Name& soon = names_[handles[std::min(at + names_ahead / 2, last)]];
    if (soon.text_bytes == Name::is_long) table_.texts().prefetch(long_text(soon));
    const Name& name = names_[handles[at]];
    const std::string_view key = text(name);
    if (bytes + key.size() > keys.text.size()) return bytes + key.size();
    base::copy_short(keys.text.data() + bytes, key.data(), key.size());
    bytes += key.size();
    keys.sizes[at] = static_cast<uint16_t>(key.size());
    keys.hashes[at] = {.tag = name.tag, .position = name.position};
  }
  return bytes;
}

void HandleBook::check_invariants() const noexcept {
  table_.check_invariants();
  uint32_t held = 0;
  for (api::Handle handle = 0; handle < fresh_; ++handle) {
    if (!holds(handle)) continue;
    ++held;
    const Place place = table_.find(hash(handle));
    ASSERT(place && place.bucket->words[place.slot] == handle);
    ASSERT(key(handle) == table_.text(place));
  }
  ASSERT(held == used());
}

}  // namespace sluice::shard
