#include "session/pipeline.hpp"

#include <cstring>
#include <new>

namespace sluice::session {

std::span<char> Pipeline::key_memory_of(uint64_t number) const noexcept {
  const std::span<std::byte> keys = memory_.subspan(places * sizeof(Decided));
  const size_t room = keys.size() / places;
  const auto own = keys.subspan(number % places * room, room);
  return {reinterpret_cast<char*>(own.data()), own.size()};
}

void Pipeline::keep(uint64_t number, uint8_t kind, const Verdicts& verdicts,
                    bool shows_key) noexcept {
  ASSERT(number > answered_ && number < added_);
  ASSERT((kept_ & bit_of(number)) == 0);
  api::Entry entry = verdicts.entries[0];
  ASSERT(entry.ticket == api::no_ticket);
  entry.given_overrides = nullptr;
  if (shows_key) {
    const std::span<char> key = key_memory_of(number);
    ASSERT(entry.key_bytes <= key.size());
    std::memcpy(key.data(), entry.key_data, entry.key_bytes);
    entry.key_data = key.data();
  }
  new (place_of(number)) Decided{
      .entry = entry, .detail = verdicts.details[0], .verdict = verdicts.verdicts[0], .kind = kind};
  kept_ |= bit_of(number);
}

}  // namespace sluice::session
