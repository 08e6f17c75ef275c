// The parcels of one lane: those that wait for room, and those that are written and unanswered.
// Flow:   add() -> next() -> note_sent() -> take_answered(); or give_up(), or lose().
// Shape:  when a parcel is given up that was written, its frame stays here: its answers may come
//         late, and are not to be taken for answers that nobody has asked for.
//         Those that others may wait for go first.
// Bounds: as many frames as the owner takes.
// Lives:  one per lane, one thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "peer/quota_parcel.hpp"

namespace sluice::peer {

class LaneParcels {
 public:
  void add(QuotaParcel& parcel) { queue_of(parcel).push_back(&parcel); }
  // The parcel that is to be written next. Null: none.
  QuotaParcel* next() const noexcept {
    if (!first_.empty()) return first_.front();
    return unsent_.empty() ? nullptr : unsent_.front();
  }
  // It was written.
  void note_sent(uint64_t frame_id, size_t bytes);

  size_t sent_count() const noexcept { return sent_.size(); }
  bool has_any() const noexcept { return next() != nullptr || !sent_.empty(); }

  struct Answered {
    bool was_asked = false;
    size_t bytes = 0;
    QuotaParcel* parcel = nullptr;  // null: it was given up
    std::vector<api::QuotaOp> ops;  // then: of its calls
  };
  // An answer behind the parcel's deadline is late, also if nobody has looked since, for this node
  // stood still: the parcel is appended to those that are given up.
  Answered take_answered(uint64_t frame_id, int64_t now_ms, std::vector<QuotaParcel*>& given_up);

  // Appends the parcels whose deadline has passed.
  void give_up(int64_t now_ms, std::vector<QuotaParcel*>& given_up);
  // All that it has, without answers.
  void lose(std::vector<QuotaParcel*>& lost);

 private:
  struct Sent {
    uint64_t frame_id;
    size_t bytes;
    QuotaParcel* parcel;
    std::vector<api::QuotaOp> ops;
  };

  static void give_up_if_late(Sent& sent, int64_t now_ms, std::vector<QuotaParcel*>& given_up);

  using Queue = std::deque<QuotaParcel*>;

  Queue& queue_of(const QuotaParcel& parcel) noexcept {
    return parcel.goes_first() ? first_ : unsent_;
  }

  Queue first_;
  Queue unsent_;
  std::vector<Sent> sent_;
};

}  // namespace sluice::peer
