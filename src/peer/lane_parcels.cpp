#include "peer/lane_parcels.hpp"

#include <algorithm>
#include <utility>

namespace sluice::peer {
namespace {

bool is_late(const QuotaParcel& parcel, int64_t now_ms) noexcept {
  return parcel.deadline_ms <= now_ms;
}

}  // namespace

void LaneParcels::note_sent(uint64_t frame_id, size_t bytes) {
  QuotaParcel* const parcel = next();
  queue_of(*parcel).pop_front();
  sent_.push_back({.frame_id = frame_id, .bytes = bytes, .parcel = parcel, .ops = {}});
}

LaneParcels::Answered LaneParcels::take_answered(uint64_t frame_id, int64_t now_ms,
                                                 std::vector<QuotaParcel*>& given_up) {
  const auto at = std::ranges::find(sent_, frame_id, &Sent::frame_id);
  if (at == sent_.end()) return {};
  give_up_if_late(*at, now_ms, given_up);
  const Answered answered{
      .was_asked = true, .bytes = at->bytes, .parcel = at->parcel, .ops = std::move(at->ops)};
  sent_.erase(at);
  return answered;
}

void LaneParcels::give_up(int64_t now_ms, std::vector<QuotaParcel*>& given_up) {
  for (Queue* const queue : {&first_, &unsent_}) {
    for (QuotaParcel* const parcel : *queue) {
      if (is_late(*parcel, now_ms)) given_up.push_back(parcel);
    }
    std::erase_if(*queue, [&](const QuotaParcel* parcel) { return is_late(*parcel, now_ms); });
  }
  for (Sent& sent : sent_) give_up_if_late(sent, now_ms, given_up);
}

void LaneParcels::give_up_if_late(Sent& sent, int64_t now_ms, std::vector<QuotaParcel*>& given_up) {
  if (sent.parcel == nullptr || !is_late(*sent.parcel, now_ms)) return;
  for (const api::QuotaCall& call : sent.parcel->batch.calls) sent.ops.push_back(call.op);
  given_up.push_back(std::exchange(sent.parcel, nullptr));
}

void LaneParcels::lose(std::vector<QuotaParcel*>& lost) {
  for (const Sent& sent : sent_) {
    if (sent.parcel != nullptr) lost.push_back(sent.parcel);
  }
  sent_.clear();
  for (Queue* const queue : {&first_, &unsent_}) {
    lost.insert(lost.end(), queue->begin(), queue->end());
    queue->clear();
  }
}

}  // namespace sluice::peer
