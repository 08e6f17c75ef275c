// Requests of which other shards decide a part, until all their parts have returned.
// Flow:   has_room() before a request joins the turn; open() when it turns out to be split; what
//         must outlive the turn is copied into its slots; every answer settles a slot; when all
//         slots of a request are settled it is complete, is delivered, and closes.
// Shape:  two rings, of slots (entry, overrides and answer in parallel arrays) and of keys' bytes;
//         a request's slots are contiguous. Slots are freed in the order in which they were opened.
// Errors: has_room() is false when there might be no room; the request must not join the turn then.
// Lives:  one thread; targets read entries' keys while a message is lent to them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/assert.hpp"
#include "base/mapped_array.hpp"
#include "route/turn.hpp"

namespace sluice::route {

struct SplitOptions {
  uint32_t entries_max = 32 * 1024;
  uint32_t text_bytes_max = 2 * 1024 * 1024;  // at least limits::handles_text_bytes_max
};
static_assert(SplitOptions{}.entries_max >= limits::frame_entries_max);
static_assert(SplitOptions{}.text_bytes_max >= limits::handles_text_bytes_max);

class SplitBook {
 public:
  explicit SplitBook(const SplitOptions& options);
  SplitBook(const SplitBook&) = delete;
  SplitBook& operator=(const SplitBook&) = delete;

  // Whether there is room for requests with so many entries together, whichever of them are split.
  bool has_room(size_t entries_count, size_t text_bytes) const noexcept;

  using Index = uint32_t;  // of a split request

  Index open(const Request& request) noexcept;
  // Slot of an entry by its place in the request.
  uint32_t slot(Index split, uint32_t place) const noexcept {
    return splits_[split].first_slot + place;
  }
  // Copies an entry, with its key and overrides, which must outlive the turn.
  void put(uint32_t slot, const api::Entry& entry) noexcept;
  // Copies an entry that this shard has decided, with its answer.
  void put_decided(uint32_t slot, const api::Entry& entry, api::Verdict verdict,
                   const api::Detail& detail) noexcept;
  const api::Entry& entry(uint32_t slot) const noexcept { return entries_[slot]; }

  // Stores the answer to one entry; returns whether its request is complete now.
  bool settle(uint32_t slot, api::Verdict verdict, const api::Detail& detail) noexcept;
  Index split_of(uint32_t slot) const noexcept { return split_of_[slot]; }

  struct Parts {
    Request request;
    std::span<api::Entry> entries;
    std::span<api::Verdict> verdicts;
    std::span<api::Detail> details;
  };
  Parts parts(Index split) noexcept;

  // The request was delivered.
  void close(Index split) noexcept;

  uint32_t open_count() const noexcept { return open_count_; }
  uint64_t reserved_bytes() const noexcept;
  // Whether a request of this session with this id is open. Searches all open requests.
  bool holds(uint32_t session, uint32_t generation, uint64_t id) const noexcept;

 private:
  // Positions in the rings; they grow without end.
  struct Extent {
    uint64_t slots;
    uint64_t text;
    bool operator==(const Extent&) const = default;
  };

  struct Split {
    Request request;
    uint32_t first_slot;
    uint32_t left;  // entries that are not settled
    bool closed;
    Extent end;  // behind what it occupies in the rings
  };

  static uint64_t fit(uint64_t position, uint64_t length, uint64_t ring) noexcept;

  base::MappedArray<api::Entry> entries_;
  base::MappedArray<api::Overrides> overrides_;
  base::MappedArray<api::Verdict> verdicts_;
  base::MappedArray<api::Detail> details_;
  base::MappedArray<Index> split_of_;
  base::MappedArray<char> text_;
  base::MappedArray<Split> splits_;  // a ring: as many as slots
  uint64_t first_split_ = 0;         // grows without end, as next_split_
  uint64_t next_split_ = 0;
  Extent freed_{};
  Extent used_{};
  uint32_t open_count_ = 0;
};

}  // namespace sluice::route
