// The flat arrays of one turn: every connection's entries, decided together.
// Flow:   sessions add requests and their entries, or the handles of their keys; entries of other
//         shards leave (EntryRouter); the worker decides the rest at once, run by run; each session
//         gets the verdicts of its requests, in the order in which they were added.
// Shape:  a request owns the places [first_entry, first_entry + entries_count) of every array; one
//         by handle has no entries, its places in that array hold stale values. An entry with
//         overrides points to its place in their array. A run is a series of consecutive requests
//         of one kind.
// Lives:  cleared after each execution; keys point into receive buffers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "api/entry.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::route {

// One frame or one REST call that waits for verdicts.
struct Request {
  uint32_t session = 0;     // index of the session that asked ...
  uint32_t generation = 0;  // ... and its generation: an answer to an ended session is dropped
  uint64_t id = 0;          // the frame's
  uint32_t first_entry = 0;
  uint32_t entries_count = 0;
  uint32_t frame_bytes = 0;    // as counted against the connection's outstanding bytes
  uint8_t kind = 0;            // the session's own
  uint8_t detail_bits = 0;     // detail columns asked for
  bool by_handle = false;      // keys of this shard, one permit each
  bool has_mixed_ids = false;  // only some of its entries may show their ids
  // Its index in the SplitBook, when other shards decide a part of it; the turn has the others.
  uint32_t split = whole;

  static constexpr uint32_t whole = 0xFFFF'FFFF;
};

struct Run {
  bool by_handle;
  uint32_t first_entry;
  uint32_t entries_count;
  uint32_t requests_count;
};

class Turn {
 public:
  Turn() {
    entries_.resize(limits::turn_entries);
    overrides_.resize(limits::turn_entries);
    handles_.resize(limits::turn_entries);
    places_.resize(limits::turn_entries);
    requests_.reserve(limits::turn_requests);
    runs_.reserve(limits::turn_requests);
    verdicts_.resize(limits::turn_entries);
    details_.resize(limits::turn_entries);
    waiters_.resize(limits::turn_entries);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool has_room(uint32_t entries_count) const noexcept {
    return entries_count_ + entries_count <= limits::turn_entries &&
           requests_.size() < limits::turn_requests;
  }
  bool empty() const noexcept { return requests_.empty(); }

  // Returns `entries_count` entries with stale values; the caller must assign every member.
  // has_room() was true.
  std::span<api::Entry> add(Request request, uint32_t entries_count) noexcept {
    request.by_handle = false;
    return std::span(entries_).subspan(join(request, entries_count), entries_count);
  }

  // Sets the overrides of an entry of this turn.
  void set_overrides(api::Entry& entry, const api::Overrides& overrides) noexcept {
    entry.given_overrides = nullptr;
    if (overrides == api::no_overrides) return;
    const auto place = static_cast<size_t>(&entry - entries_.data());
    ASSERT(place < entries_count_);
    overrides_[place] = overrides;
    entry.given_overrides = &overrides_[place];
  }

  // Handles that the connection holds, of keys of this shard.
  void add(Request request, std::span<const api::Handle> handles) noexcept {
    request.by_handle = true;
    const uint32_t first = join(request, static_cast<uint32_t>(handles.size()));
    std::copy(handles.begin(), handles.end(), handles_.begin() + first);
  }

  // Of the handles that a request has, those at these places.
  void add(Request request, std::span<const api::Handle> handles,
           std::span<const uint16_t> places) noexcept {
    request.by_handle = true;
    const uint32_t first = join(request, static_cast<uint32_t>(places.size()));
    for (size_t i = 0; i < places.size(); ++i) handles_[first + i] = handles[places[i]];
    std::copy(places.begin(), places.end(), places_.begin() + first);
  }

  // The request that was added last, with entries of which some leave: each entry that stays moves
  // to the front, and remembers its place in the request; then all places behind them leave.
  Request& last_request() noexcept { return requests_.back(); }
  void move_in_last(uint32_t from, uint32_t to) noexcept {
    const uint32_t first = requests_.back().first_entry;
    api::Entry& entry = entries_[first + to];
    entry = entries_[first + from];
    places_[first + to] = static_cast<uint16_t>(from);
    if (entry.given_overrides == nullptr) return;
    overrides_[first + to] = *entry.given_overrides;
    entry.given_overrides = &overrides_[first + to];
  }
  void shrink_last(uint32_t entries_count) noexcept {
    Request& request = requests_.back();
    const uint32_t left = request.entries_count - entries_count;
    request.entries_count = entries_count;
    runs_.back().entries_count -= left;
    entries_count_ -= left;
    if (entries_count > 0) return;
    requests_.pop_back();
    if (--runs_.back().requests_count == 0) runs_.pop_back();
  }

  void clear() noexcept {
    entries_count_ = 0;
    requests_.clear();
    runs_.clear();
  }

  std::span<const Run> runs() const noexcept { return runs_; }

  std::span<const Request> requests() const noexcept { return requests_; }
  std::span<Request> requests() noexcept { return requests_; }
  std::span<api::Entry> entries() noexcept { return std::span(entries_).first(entries_count_); }
  std::span<const api::Entry> entries() const noexcept {
    return std::span(entries_).first(entries_count_);
  }
  std::span<const api::Handle> handles() const noexcept {
    return std::span(handles_).first(entries_count_);
  }
  size_t entries_count() const noexcept { return entries_count_; }
  // Of entries of split requests: where they are in their request.
  std::span<const uint16_t> places() const noexcept {
    return std::span(places_).first(entries_count_);
  }
  std::span<uint16_t> places() noexcept { return std::span(places_).first(entries_count_); }
  std::span<api::Verdict> verdicts() noexcept { return std::span(verdicts_).first(entries_count_); }
  std::span<api::Detail> details() noexcept { return std::span(details_).first(entries_count_); }
  std::span<api::WaiterId> waiters() noexcept { return std::span(waiters_).first(entries_count_); }

 private:
  // Returns the first place of the request.
  uint32_t join(Request& request, uint32_t entries_count) noexcept {
    ASSERT(has_room(entries_count));
    request.first_entry = entries_count_;
    request.entries_count = entries_count;
    requests_.push_back(request);
    if (runs_.empty() || runs_.back().by_handle != request.by_handle) {
      runs_.push_back({.by_handle = request.by_handle,
                       .first_entry = entries_count_,
                       .entries_count = 0,
                       .requests_count = 0});
    }
    runs_.back().entries_count += entries_count;
    ++runs_.back().requests_count;
    entries_count_ += entries_count;
    return request.first_entry;
  }

  std::vector<api::Entry> entries_;
  std::vector<api::Overrides> overrides_;
  std::vector<api::Handle> handles_;
  std::vector<uint16_t> places_;
  uint32_t entries_count_ = 0;
  std::vector<Request> requests_;
  std::vector<Run> runs_;
  std::vector<api::Verdict> verdicts_;
  std::vector<api::Detail> details_;
  std::vector<api::WaiterId> waiters_;
};

}  // namespace sluice::route
