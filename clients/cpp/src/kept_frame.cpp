#include "kept_frame.hpp"

#include "column.hpp"
#include "quota_slice.hpp"

namespace sluicegate {
namespace {

using Stage = KeptSettle::Stage;

void encode_kept_settles(uint64_t id, const std::vector<KeptSettle>& settles,
                         std::vector<uint64_t>& out) {
  std::vector<SettleEntry> entries;
  entries.reserve(settles.size());
  for (const KeptSettle& settle : settles) entries.push_back({settle.reservation, settle.used});
  encode_settles(id, entries, out);
}

void encode_records(uint64_t id, const std::vector<KeptSettle>& settles,
                    std::vector<uint64_t>& out) {
  std::vector<std::string_view> subjects;
  std::vector<uint8_t> counts;
  std::vector<std::string> ids;
  UsedColumns columns;
  for (size_t i = 0; i < settles.size(); ++i) {
    const ReservedCall& reserved = *settles[i].reserved;
    subjects.insert(subjects.end(), reserved.subjects.begin(), reserved.subjects.end());
    counts.push_back(static_cast<uint8_t>(reserved.subjects.size()));
    ids.push_back(settles[i].record_id());
    columns.add(i, settles[i].recorded());
  }
  const std::vector<std::string_view> id_views{ids.begin(), ids.end()};
  sluicegate::encode(id,
                     Record{.flags = 0,
                            .subjects = subjects,
                            .subject_counts = counts,
                            .requests = columns.requests,
                            .input_tokens = columns.input_tokens,
                            .cached_input_tokens = columns.cached_input_tokens,
                            .output_tokens = columns.output_tokens,
                            .costs = columns.costs,
                            .ids = id_views},
                     out);
}

}  // namespace

size_t KeptFrame::text_bytes_of(const KeptSettle& settle) {
  if (settle.stage == Stage::settle) return 0;
  size_t bytes = settle.record_id().size();
  for (const std::string& subject : settle.reserved->subjects) bytes += subject.size() + 2;
  return bytes;
}

bool KeptFrame::encode(std::vector<uint64_t>& out) {
  if (settles_.front().stage == Stage::settle) {
    encode_kept_settles(id, settles_, out);
  } else {
    encode_records(id, settles_, out);
  }
  return true;
}

void KeptFrame::take(const Answer& answer, Finished& finished) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) {
    may_be_taken_ = false;
    return fail(failure_of(*refusal), finished);
  }
  const auto* answers = std::get_if<QuotaAnswers>(&answer);
  if (answers == nullptr) throw_unexpected(answer);
  if (answers->codes.size() != settles_.size()) throw_misfit();
  if (std::exchange(is_over_, true)) return;
  keeper_.answered(settles_, *answers, finished.instance_id);
}

void KeptFrame::fail(Failure failure, Finished&) {
  if (std::exchange(is_over_, true)) return;
  if (failure == Failure::refused) {
    keeper_.refused(settles_);
  } else if (may_be_taken_) {
    keeper_.unanswered(settles_);
  } else {
    keeper_.unsent(settles_);
  }
}

Waiter::Clock::time_point KeptFrame::expire(Waiter::Clock::time_point now, Finished& finished) {
  if (is_over_) return Waiter::Clock::time_point::max();
  if (now < deadline_) return deadline_;
  fail(Failure::timed_out, finished);
  return Waiter::Clock::time_point::max();
}

}  // namespace sluicegate
