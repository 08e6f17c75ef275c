// The flat arrays of one loop turn: every connection's entries, decided together.
// Flow:   sessions add requests and their entries; the worker decides all of them at once; each
//         request's verdicts go back to its session, in the order added.
// Shape:  a request owns the entries [first_entry, first_entry + entries_count).
// Lives:  cleared after each execution; keys point into receive buffers.
#pragma once

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
  uint32_t generation = 0;  // ... and its life: an answer to an ended session is dropped
  uint64_t id = 0;          // the frame's
  uint32_t first_entry = 0;
  uint32_t entries_count = 0;
  uint32_t frame_bytes = 0;  // as counted against the connection's outstanding bytes
  uint8_t kind = 0;          // the session's own
  uint8_t details = 0;       // detail columns asked for
  uint32_t split = whole;    // its place in the SplitBook, when other cores decide a part of it

  static constexpr uint32_t whole = 0xFFFF'FFFF;
};

class Turn {
 public:
  Turn() {
    entries_.reserve(limits::turn_entries);
    requests_.reserve(limits::turn_requests);
    verdicts_.resize(limits::turn_entries);
    details_.resize(limits::turn_entries);
    waiters_.resize(limits::turn_entries);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool has_room(uint32_t entries_count) const noexcept {
    return entries_.size() + entries_count <= limits::turn_entries &&
           requests_.size() < limits::turn_requests;
  }
  bool empty() const noexcept { return requests_.empty(); }

  // `entries_count` entries to be filled in by the caller, with keys of so many bytes together;
  // there was room.
  std::span<api::Entry> add(Request request, uint32_t entries_count, size_t key_bytes) noexcept {
    ASSERT(has_room(entries_count));
    key_bytes_ += key_bytes;
    request.first_entry = static_cast<uint32_t>(entries_.size());
    request.entries_count = entries_count;
    requests_.push_back(request);
    entries_.resize(entries_.size() + entries_count);
    return std::span(entries_).last(entries_count);
  }

  void clear() noexcept {
    entries_.clear();
    requests_.clear();
    key_bytes_ = 0;
  }

  std::span<const Request> requests() const noexcept { return requests_; }
  std::span<Request> requests() noexcept { return requests_; }
  std::span<api::Entry> entries() noexcept { return entries_; }
  std::span<const api::Entry> entries() const noexcept { return entries_; }
  size_t entries_count() const noexcept { return entries_.size(); }
  size_t key_bytes() const noexcept { return key_bytes_; }
  std::span<api::Verdict> verdicts() noexcept {
    return std::span(verdicts_).first(entries_.size());
  }
  std::span<api::Detail> details() noexcept { return std::span(details_).first(entries_.size()); }
  std::span<api::WaiterId> waiters() noexcept { return std::span(waiters_).first(entries_.size()); }

 private:
  std::vector<api::Entry> entries_;
  std::vector<Request> requests_;
  size_t key_bytes_ = 0;  // of all entries together
  std::vector<api::Verdict> verdicts_;
  std::vector<api::Detail> details_;
  std::vector<api::WaiterId> waiters_;
};

}  // namespace sluice::route
