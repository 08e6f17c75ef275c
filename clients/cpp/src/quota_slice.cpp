#include "quota_slice.hpp"

#include "column.hpp"

namespace sluicegate {

uint8_t flags_of(const ConsumeOptions& options) noexcept {
  uint8_t flags = 0;
  if (options.may_wait) flags |= quota_flag::may_wait;
  if (options.wants_limits) flags |= quota_flag::wants_limits;
  if (options.wants_violated) flags |= quota_flag::wants_violated;
  return flags;
}

uint8_t flags_of(const ReserveOptions& options) noexcept {
  const uint8_t bound = options.connection_bound ? quota_flag::connection_bound : uint8_t{0};
  return bound | flags_of(ConsumeOptions{.may_wait = options.may_wait,
                                         .wants_violated = options.wants_violated,
                                         .wants_limits = options.wants_limits});
}

void QuotaSlice::take(const Answer& answer, Finished& finished) {
  const auto* answers = std::get_if<QuotaAnswers>(&answer);
  if (answers == nullptr) return Slice::take(answer, finished);
  if (answers->codes.size() != count()) throw_misfit();
  if (waiter() == nullptr) {  // its caller has left: the reservations are to be cancelled
    for (const uint64_t reservation : answers->reservations) {
      if (reservation != 0) finished.to_release.push_back({.key = {}, .reservation = reservation});
    }
    return;
  }
  size_t failed = 0;
  for (size_t i = 0; i < count(); ++i) {
    const QuotaCode code = answers->codes[i];
    const bool is_draining = code == QuotaCode::draining;
    failed += is_draining ? 1 : 0;
    columns_.codes[place(i)] = is_draining ? QuotaCode::none : code;
    if (!answers->reservations.empty() && !columns_.reservations.empty()) {
      columns_.reservations[place(i)] = answers->reservations[i];
    }
    if (!answers->retry_after_ms.empty() && !columns_.retry_after_ms.empty()) {
      columns_.retry_after_ms[place(i)] = answers->retry_after_ms[i];
    }
    waiter()->verdicts()[place(i)] =
        is_draining ? mark_of(Failure::draining) : outcome_of(code, policy_).verdict;
  }
  if (failed > 0) waiter()->note_failure(Failure::draining, failed);
  ++finished.calls;
  waiter()->complete(count());
}

bool ReserveSlice::encode(std::vector<uint64_t>& out) {
  thread_local std::vector<std::string_view> subjects;
  thread_local Column<uint32_t> requests;
  thread_local Column<uint64_t> input_tokens, output_tokens, costs;
  subjects.clear();
  requests.begin();
  for (auto* column : {&input_tokens, &output_tokens, &costs}) column->begin();
  for (size_t i = 0; i < count(); ++i) {
    const ReserveEntry& entry = entries_[i];
    subjects.push_back(entry.subject);
    requests.add(i, entry.requests, 1);
    input_tokens.add(i, entry.input_tokens, 0);
    output_tokens.add(i, entry.max_output_tokens.value_or(unset), unset);
    costs.add(i, entry.cost, 0);
  }
  sluicegate::encode(id,
                     Reserve{.flags = flags_of(shared_),
                             .wait_limit_ms = 0,
                             .lifetime_ms = shared_.lifetime_ms,
                             .subjects = subjects,
                             .subject_counts = {},
                             .requests = requests,
                             .input_tokens = input_tokens,
                             .max_output_tokens = output_tokens,
                             .costs = costs,
                             .ids = {},
                             .owner = shared_.owner},
                     out);
  return true;
}

void encode_settles(uint64_t id, std::span<const SettleEntry> entries, std::vector<uint64_t>& out) {
  thread_local std::vector<uint64_t> reservations;
  thread_local UsedColumns columns;
  reservations.clear();
  columns.begin();
  for (size_t i = 0; i < entries.size(); ++i) {
    reservations.push_back(entries[i].reservation);
    columns.add(i, entries[i].used);
  }
  sluicegate::encode(id,
                     Settle{.reservations = reservations,
                            .requests = columns.requests,
                            .input_tokens = columns.input_tokens,
                            .cached_input_tokens = columns.cached_input_tokens,
                            .output_tokens = columns.output_tokens,
                            .costs = columns.costs},
                     out);
}

bool SettleSlice::encode(std::vector<uint64_t>& out) {
  encode_settles(id, entries_, out);
  return true;
}

}  // namespace sluicegate
