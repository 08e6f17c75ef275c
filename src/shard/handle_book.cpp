#include "shard/handle_book.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sluice::shard {

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
    names_[handle] = {
        .tag = hash.tag, .position = hash.position, .text = table_.text_reference(place)};
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
  names_[handle] = {.tag = 0, .position = free_, .text = KeyText::none};
  free_ = handle;
}

std::string_view HandleBook::key(api::Handle handle) const noexcept {
  DEBUG_ASSERT(holds(handle));
  return table_.texts().text(names_[handle].text);
}

// Three steps, so that the lines that one step prefetches arrive while the others work.
void HandleBook::look_up(std::span<const api::Handle> handles,
                         std::span<api::HeldKey> keys) const noexcept {
  ASSERT(keys.size() >= handles.size());
  const size_t ahead = std::min<size_t>(64, handles.size());
  for (size_t at = 0; at < handles.size() + 2 * ahead; ++at) {
    if (at < handles.size()) __builtin_prefetch(&names_[handles[at]]);
    if (at >= ahead && at - ahead < handles.size()) {
      table_.texts().prefetch(names_[handles[at - ahead]].text);
    }
    if (at < 2 * ahead) continue;
    const api::Handle handle = handles[at - 2 * ahead];
    const std::string_view text = key(handle);
    keys[at - 2 * ahead] = {
        .data = text.data(), .bytes = static_cast<uint16_t>(text.size()), .hash = hash(handle)};
  }
}

void HandleBook::check_invariants() const noexcept {
  table_.check_invariants();
  uint32_t held = 0;
  for (api::Handle handle = 0; handle < fresh_; ++handle) {
    if (!holds(handle)) continue;
    ++held;
    const Place place = table_.find(hash(handle));
    ASSERT(place && place.bucket->words[place.slot] == handle);
    ASSERT(names_[handle].text == table_.text_reference(place));
  }
  ASSERT(held == used());
}

}  // namespace sluice::shard
