// Leads from a client's own id to the reservation or waiter of its first request, so that a repeat
// finds it.
// Shape:  an index by the id's hash; the reservations and waiters that it leads to hold the whole
//         id.
// Errors: none: there is room for every reservation and every waiter.
// Lives:  one thread only; when a waiter is served, its id goes over to the reservation.
#pragma once

#include <cstdint>
#include <optional>

#include "quota/hash_index.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

class ClientIds {
 public:
  struct Entry {
    uint32_t index = 0;  // of the reservation, or the waiter
    bool is_waiter = false;
  };

  ClientIds(uint32_t reservations_max, uint32_t waiters_max)
      : index_(reservations_max + waiters_max, "reservations (--max-reservations)") {}

  void add(const NameHash& id, Entry entry) noexcept { index_.insert(id.low, number_of(entry)); }
  void remove(const NameHash& id, Entry entry) noexcept { index_.erase(id.low, number_of(entry)); }

  // `id_of(entry)` returns the whole id of an entry.
  template <typename IdOf>
  std::optional<Entry> find(const NameHash& id, IdOf id_of) const noexcept {
    const uint32_t found =
        index_.find(id.low, [&](uint32_t number) { return id_of(entry_of(number)) == id; });
    if (found == HashIndex::none) return std::nullopt;
    return entry_of(found);
  }

  uint64_t reserved_bytes() const noexcept { return index_.reserved_bytes(); }

 private:
  static constexpr uint32_t waiter_bit = 0x8000'0000;

  static uint32_t number_of(Entry entry) noexcept {
    return entry.index | (entry.is_waiter ? waiter_bit : 0);
  }
  static Entry entry_of(uint32_t number) noexcept {
    return {.index = number & ~waiter_bit, .is_waiter = (number & waiter_bit) != 0};
  }

  HashIndex index_;
};

}  // namespace sluice::quota
