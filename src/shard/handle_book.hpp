// Keys that connections refer to by number, and the handle slots where such keys' windows lie.
// Flow:   a connection interns a key -> its handle, the same for every connection of this shard ->
//         decisions go to the handle slot without hashing, looking up or reading the key.
// Shape:  handle slots are 16 bytes side by side, by handle: a key's cell (key_cell.hpp), and how
//         many connections hold the handle. A handle slot is vacant until its key is first asked
//         for by handle, after the key is forgotten, and always where the key belongs to another
//         shard. Names lie apart, cold: hashes and short texts, or where a long text is. A key
//         table of their own finds the handle of a key.
// Errors: intern() returns `no_handle` when handles_max keys are held, or their text has no room
//         left.
// Lives:  one thread only; address space is reserved for all, memory taken as it is used. A handle
//         lives from intern() to the last drop_reference(); its number is used again after that.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "api/entry.hpp"
#include "base/assert.hpp"
#include "base/mapped_array.hpp"
#include "base/prefetch.hpp"
#include "shard/key_cell.hpp"
#include "shard/key_hash.hpp"
#include "shard/key_table.hpp"

namespace sluice::shard {

class HandleBook {
 public:
  HandleBook(uint32_t handles_max, uint32_t key_bytes_max);

  // Adds a reference to the key's handle.
  api::Handle intern(const KeyHash& hash, std::string_view key) noexcept;
  // Drops one reference. After the last, the handle slot has to be vacant, and the number may
  // become another key's.
  void drop_reference(api::Handle handle) noexcept;
  bool is_last(api::Handle handle) const noexcept {
    DEBUG_ASSERT(holds(handle));
    return handle_slots_[handle].references == 1;
  }

  KeyCell handle_slot(api::Handle handle) const noexcept {
    HandleSlot& handle_slot = handle_slots_[handle];
    return {handle_slot.word, handle_slot.tail};
  }
  SLUICE_PREFETCH_FUNCTION void prefetch(api::Handle handle) const noexcept {
    __builtin_prefetch(&handle_slots_[handle], 1);
  }

  KeyHash hash(api::Handle handle) const noexcept {
    return {.tag = names_[handle].tag, .position = names_[handle].position};
  }
  // Valid until the last drop_reference().
  std::string_view key(api::Handle handle) const noexcept;
  // Writes the keys of these handles, with the memory of several fetched at once. Returns the bytes
  // of their text: more than `keys.text` has if it is too small, and some keys are not written.
  size_t look_up(std::span<const api::Handle> handles, const api::HeldKeys& keys) const noexcept;
  bool holds(api::Handle handle) const noexcept {
    return handle < fresh_ && handle_slots_[handle].references > 0;
  }

  // Continues the growth of the table of names, if it grows.
  void grow_slice() noexcept { table_.grow_slice(); }

  uint32_t used() const noexcept { return table_.keys_count(); }
  uint32_t index_end() const noexcept { return fresh_; }
  uint64_t reserved_bytes() const noexcept {
    return handle_slots_.reserved_bytes() + names_.reserved_bytes() + table_.reserved_bytes();
  }
  void check_invariants() const noexcept;

 private:
  struct HandleSlot {
    uint64_t word;
    uint32_t tail;
    uint32_t references;
  };
  static_assert(sizeof(HandleSlot) == 16);

  // The key's hash, and its text, which is also in the table. Two to a cache line, and a line is
  // all that look_up() reads of a short key.
  struct Name {
    static constexpr uint8_t is_long = 0xFF;

    uint64_t tag;
    uint32_t position;  // of a free number: the next free one
    std::array<char, 19> text;
    uint8_t text_bytes;  // is_long: `text` begins with the text's KeyText::Reference
  };
  static_assert(sizeof(Name) == 32);

  static Name name_of(const KeyHash& hash, std::string_view key,
                      KeyText::Reference reference) noexcept;
  static KeyText::Reference long_text(const Name& name) noexcept;
  std::string_view text(const Name& name) const noexcept;
  api::Handle take_number() noexcept;

  base::MappedArray<HandleSlot> handle_slots_;
  base::MappedArray<Name> names_;
  KeyTable table_;  // a key's word is its handle
  api::Handle free_ = api::no_handle;
  api::Handle fresh_ = 0;  // never given from here on
};

}  // namespace sluice::shard
