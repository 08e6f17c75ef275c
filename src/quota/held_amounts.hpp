// The holds on the subjects of one shard: amounts of calls that other shards are still deciding.
// Flow:   a shard asks for a call's subjects -> add() -> the verdict -> remove(), and a charge if
//         the call is admitted.
// Shape:  a sum for each subject that has holds, beside its meters: a hold counts when others are
//         decided, but starts no window, and leaves no trace when it is removed.
// Errors: none: there is a place for each subject.
// Lives:  one thread only. No hold outlives its round (docs/adr/0016), but one for another node,
//         which may be silent (docs/adr/0034).
#pragma once

#include <algorithm>
#include <cstdint>

#include "api/quota.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/object_pool.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

class Held {
 public:
  uint32_t count = 0;                // of the holds
  uint32_t slots = 0;                // that they take of limits on concurrency
  const void* last_batch = nullptr;  // that added a hold, since any was removed

  void add(const api::Amounts& amounts) noexcept { change(amounts, 1); }
  void subtract(const api::Amounts& amounts) noexcept { change(amounts, -1); }
  void add(const Held& other) noexcept {
    count += other.count;
    slots += other.slots;
    requests_ += other.requests_;
    input_tokens_ += other.input_tokens_;
    output_tokens_ += other.output_tokens_;
    cost_ += other.cost_;
  }
  // Each at most as much as a call may ask for: more does not fit anything either.
  api::Amounts amounts() const noexcept {
    const auto bounded = [](Sum sum) {
      return static_cast<uint64_t>(std::min<Sum>(sum, limits::amount_max));
    };
    return {.requests = bounded(requests_),
            .input_tokens = bounded(input_tokens_),
            .output_tokens = bounded(output_tokens_),
            .cost = bounded(cost_)};
  }

 private:
  __extension__ using Sum = __int128;  // subjects without a limit may hold any amounts

  void change(const api::Amounts& amounts, int sign) noexcept {
    requests_ += Sum{sign} * amounts.requests;
    input_tokens_ += Sum{sign} * amounts.input_tokens;
    output_tokens_ += Sum{sign} * amounts.output_tokens;
    cost_ += Sum{sign} * amounts.cost;
  }

  Sum requests_ = 0;
  Sum input_tokens_ = 0;
  Sum output_tokens_ = 0;
  Sum cost_ = 0;
};

class HeldAmounts {
 public:
  explicit HeldAmounts(uint32_t subjects_max)
      : pool_(subjects_max, "holds on subjects (--max-subjects)") {}

  void add(Subject& subject, const api::Amounts& amounts, bool takes_slot,
           const void* batch) noexcept {
    if (!subject.has_holds) {
      subject.holds = pool_.take();
      subject.has_holds = true;
    }
    Held& held = pool_[subject.holds];
    held.add(amounts);
    ++held.count;
    if (takes_slot) ++held.slots;
    held.last_batch = batch;
  }

  void remove(Subject& subject, const api::Amounts& amounts, bool takes_slot) noexcept {
    ASSERT(subject.has_holds);
    Held& held = pool_[subject.holds];
    held.subtract(amounts);
    held.last_batch = nullptr;  // no batch is in the middle of adding its holds
    if (takes_slot) --held.slots;
    if (--held.count > 0) return;
    subject.has_holds = false;
    pool_.free(subject.holds);
  }

  // Null: the subject has none.
  const Held* of(const Subject& subject) const noexcept {
    return subject.has_holds ? &pool_[subject.holds] : nullptr;
  }
  bool has_any() const noexcept { return pool_.used() > 0; }

  uint64_t reserved_bytes() const noexcept { return pool_.reserved_bytes(); }

 private:
  base::ObjectPool<Held> pool_;
};

}  // namespace sluice::quota
