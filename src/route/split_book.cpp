#include "route/split_book.hpp"

#include <algorithm>

namespace sluice::route {

SplitBook::SplitBook(const SplitOptions& options)
    : entries_(options.entries_max, "requests that are split over shards"),
      overrides_(options.entries_max, "requests that are split over shards"),
      verdicts_(options.entries_max, "requests that are split over shards"),
      details_(options.entries_max, "requests that are split over shards"),
      split_of_(options.entries_max, "requests that are split over shards"),
      text_(options.text_bytes_max, "keys that other shards decide"),
      splits_(options.entries_max, "requests that are split over shards") {}

// Where `length` contiguous places begin: at `position`, or behind the ring's end.
uint64_t SplitBook::fit(uint64_t position, uint64_t length, uint64_t ring) noexcept {
  const uint64_t offset = position % ring;
  return offset + length <= ring ? position : position + ring - offset;
}

// Counts as if they were one request, which needs no less room than several.
bool SplitBook::has_room(size_t entries_count, size_t text_bytes) const noexcept {
  const uint64_t slots_end = fit(used_.slots, entries_count, entries_.size()) + entries_count;
  const uint64_t text_end = fit(used_.text, text_bytes, text_.size()) + text_bytes;
  return slots_end - freed_.slots <= entries_.size() && text_end - freed_.text <= text_.size();
}

SplitBook::Index SplitBook::open(const Request& request) noexcept {
  const uint32_t count = request.entries_count;
  ASSERT(count > 0);
  const uint64_t first = fit(used_.slots, count, entries_.size());
  used_.slots = first + count;
  ASSERT(used_.slots - freed_.slots <= entries_.size());
  const auto index = static_cast<Index>(next_split_++ % splits_.size());
  splits_[index] = {.request = request,
                    .first_slot = static_cast<uint32_t>(first % entries_.size()),
                    .left = count,
                    .closed = false,
                    .end = used_};
  for (Index& split : split_of_.slice(splits_[index].first_slot, count)) split = index;
  ++open_count_;
  return index;
}

void SplitBook::put(uint32_t slot, const api::Entry& entry) noexcept {
  const uint64_t begin = fit(used_.text, entry.key_bytes, text_.size());
  used_.text = begin + entry.key_bytes;
  ASSERT(used_.text - freed_.text <= text_.size());
  splits_[split_of_[slot]].end.text = used_.text;
  char* key = text_.data() + begin % text_.size();
  std::copy_n(entry.key_data, entry.key_bytes, key);  // perhaps no bytes, from a null pointer
  entries_[slot] = entry;
  entries_[slot].key_data = key;
  if (entry.given_overrides == nullptr) return;
  overrides_[slot] = *entry.given_overrides;
  entries_[slot].given_overrides = &overrides_[slot];
}

void SplitBook::put_decided(uint32_t slot, const api::Entry& entry, api::Verdict verdict,
                            const api::Detail& detail) noexcept {
  entries_[slot] = entry;
  settle(slot, verdict, detail);
}

bool SplitBook::settle(uint32_t slot, api::Verdict verdict, const api::Detail& detail) noexcept {
  verdicts_[slot] = verdict;
  const bool reported = (entries_[slot].flags & api::flag::wants_details) != 0;
  if (reported || verdict == api::Verdict::queued) details_[slot] = detail;
  Split& split = splits_[split_of_[slot]];
  ASSERT(split.left > 0);
  return --split.left == 0;
}

SplitBook::Parts SplitBook::parts(Index index) noexcept {
  const Split& split = splits_[index];
  const uint32_t first = split.first_slot;
  const uint32_t count = split.request.entries_count;
  return {.request = split.request,
          .entries = entries_.slice(first, count),
          .verdicts = verdicts_.slice(first, count),
          .details = details_.slice(first, count)};
}

void SplitBook::close(Index index) noexcept {
  ASSERT(splits_[index].left == 0 && !splits_[index].closed);
  splits_[index].closed = true;
  --open_count_;
  while (first_split_ < next_split_) {
    const Split& oldest = splits_[first_split_ % splits_.size()];
    if (!oldest.closed) return;
    freed_ = oldest.end;
    ++first_split_;
  }
  freed_ = used_ = {};  // empty: for the next request all the room is contiguous
}

bool SplitBook::holds(uint32_t session, uint32_t generation, uint64_t id) const noexcept {
  for (uint64_t split = first_split_; split < next_split_; ++split) {
    const Split& open = splits_[split % splits_.size()];
    const Request& request = open.request;
    if (!open.closed && request.session == session && request.generation == generation &&
        request.id == id) {
      return true;
    }
  }
  return false;
}

uint64_t SplitBook::reserved_bytes() const noexcept {
  return entries_.reserved_bytes() + overrides_.reserved_bytes() + verdicts_.reserved_bytes() +
         details_.reserved_bytes() + split_of_.reserved_bytes() + text_.reserved_bytes() +
         splits_.reserved_bytes();
}

}  // namespace sluice::route
