// The decisions of an HTTP/1.1 connection that are not answered yet, in the order of their
// requests. Keeps what other shards, or this one, decide before its answer may be written.
// Flow:   add() for each decision -> its verdict: is_first() and pop(), or keep() -> take_first()
//         once those before it are popped. Before what must wait: resume_at() -> may_resume().
// Shape:  a ring of places, and one bit for each that is kept; a kept decision lies at its place,
//         with its key if the answer shows it.
// Bounds: limits::pipelined_decisions_max; beyond it the session takes no further request.
// Lives:  one per connection. Its memory is not touched before something is kept. A decision that
//         was taken is valid until the next add().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "api/entry.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"
#include "session/session.hpp"

namespace sluice::session {

class Pipeline {
 public:
  static constexpr uint32_t places = limits::pipelined_decisions_max;

  struct Decided {
    api::Entry entry;  // its key only if the answer shows it; no overrides
    api::Detail detail;
    api::Verdict verdict;
    uint8_t kind;  // HttpTransport's

    Verdicts verdicts() const noexcept {
      return {.entries = {&entry, 1}, .verdicts = {&verdict, 1}, .details = {&detail, 1}};
    }
  };

  // Of a connection. A key is a part of a head.
  static constexpr size_t memory_bytes(size_t key_bytes_max) noexcept {
    return places * (sizeof(Decided) + key_room(key_bytes_max));
  }
  // `memory` is aligned as Decided is.
  explicit Pipeline(std::span<std::byte> memory) noexcept : memory_(memory) {}

  bool empty() const noexcept { return added_ == answered_; }
  uint32_t count() const noexcept { return static_cast<uint32_t>(added_ - answered_); }
  bool is_full() const noexcept { return count() == places; }

  // Returns the decision's number.
  uint64_t add() noexcept {
    ASSERT(!is_full());
    return added_++;
  }
  // Whether everything before it is answered.
  bool is_first(uint64_t number) const noexcept { return number == answered_; }
  void pop() noexcept {
    ASSERT(!empty());
    ++answered_;
  }

  // What comes next waits until only so many are unanswered.
  void resume_at(uint32_t unanswered_count) noexcept { resumes_at_ = unanswered_count; }
  bool may_resume() const noexcept { return count() <= resumes_at_; }

  // The decision with this number, which is not the first one. It holds no ticket.
  void keep(uint64_t number, uint8_t kind, const Verdicts& verdicts, bool shows_key) noexcept;
  // The first decision, popped, if it has been kept; else null.
  const Decided* take_first() noexcept {
    const uint64_t bit = bit_of(answered_);
    if ((kept_ & bit) == 0) return nullptr;
    kept_ &= ~bit;
    return place_of(answered_++);
  }

 private:
  static_assert(places == 64, "kept_ has a bit for each place");

  static constexpr size_t key_room(size_t key_bytes_max) noexcept {
    const size_t bytes = std::min<size_t>(key_bytes_max, limits::http_header_bytes_max);
    return (bytes + alignof(Decided) - 1) / alignof(Decided) * alignof(Decided);
  }
  static uint64_t bit_of(uint64_t number) noexcept { return uint64_t{1} << (number % places); }
  Decided* place_of(uint64_t number) const noexcept {
    return reinterpret_cast<Decided*>(memory_.data()) + number % places;
  }
  std::span<char> key_memory_of(uint64_t number) const noexcept;

  std::span<std::byte> memory_;
  uint64_t added_ = 0;
  uint64_t answered_ = 0;
  uint64_t kept_ = 0;  // which places hold a decision
  uint32_t resumes_at_ = 0;
};

static_assert(sizeof(Pipeline::Decided) == 88, "docs/architecture.md says so");

}  // namespace sluice::session
