#include "shard/handle_book.hpp"

#include "base/assert.hpp"

namespace sluice::shard {

HandleBook::HandleBook(uint32_t handles_max, uint32_t key_bytes_max)
    : handle_slots_(handles_max, "handles (--max-handles)"),
      hashes_(handles_max, "handles (--max-handles)"),
      names_(handles_max, key_bytes_max) {
  handle_slots_.advise_huge();
}

api::Handle HandleBook::intern(const KeyHash& hash, std::string_view key) noexcept {
  Place place = names_.find(hash);
  if (!place) {
    place = names_.insert(hash, key);
    if (!place) return api::no_handle;
    const api::Handle handle = take_number();
    place.bucket->words[place.slot] = handle;
    hashes_[handle] = hash;
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
  free_ = hashes_[handle].position;
  return handle;
}

void HandleBook::drop_reference(api::Handle handle) noexcept {
  ASSERT(holds(handle));
  if (--handle_slots_[handle].references > 0) return;
  ASSERT(handle_slot(handle).is_vacant());
  names_.erase(names_.find(hashes_[handle]));
  hashes_[handle] = {.tag = 0, .position = free_};
  free_ = handle;
}

std::string_view HandleBook::key(api::Handle handle) const noexcept {
  DEBUG_ASSERT(holds(handle));
  return names_.text(names_.find(hashes_[handle]));
}

void HandleBook::check_invariants() const noexcept {
  names_.check_invariants();
  uint32_t held = 0;
  for (api::Handle handle = 0; handle < fresh_; ++handle) {
    if (!holds(handle)) continue;
    ++held;
    const Place place = names_.find(hashes_[handle]);
    ASSERT(place && place.bucket->words[place.slot] == handle);
  }
  ASSERT(held == used());
}

}  // namespace sluice::shard
