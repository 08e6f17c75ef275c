// What the outcomes of calls and batches say of an entry, and of the limits that deny.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "sluicegate/client.hpp"

namespace sluicegate {
namespace {

// Of a column that is empty where no entry has a value.
template <typename T>
T value_at(const std::vector<T>& column, size_t index) {
  return column.empty() ? T{} : column[index];
}

void require_index(size_t index, size_t count) {
  if (index < count) return;
  throw std::out_of_range("the batch has " + std::to_string(count) +
                          " entries, and none with the index " + std::to_string(index));
}

}  // namespace

bool BatchOutcome::all_approved() const noexcept {
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](Verdict verdict) { return verdict == Verdict::approved; });
}

Outcome BatchOutcome::operator[](size_t index) const {
  return {.verdict = verdicts[index],
          .failure = value_at(failures, index),
          .limit = value_at(limit, index),
          .remaining = value_at(remaining, index),
          .window_ms = value_at(window_ms, index),
          .reset_ms = value_at(reset_ms, index),
          .retry_after_ms = value_at(retry_after_ms, index)};
}

Outcome BatchOutcome::at(size_t index) const {
  require_index(index, verdicts.size());
  return (*this)[index];
}

bool QuotaBatchOutcome::all_admitted() const noexcept {
  return std::all_of(codes.begin(), codes.end(), admits);
}

QuotaOutcome QuotaBatchOutcome::operator[](size_t index) const {
  return {.code = codes[index],
          .failure = value_at(failures, index),
          .reservation = value_at(reservations, index),
          .retry_after_ms = value_at(retry_after_ms, index)};
}

QuotaOutcome QuotaBatchOutcome::at(size_t index) const {
  require_index(index, codes.size());
  return (*this)[index];
}

const LimitState* QuotaOutcome::violated() const noexcept {
  const LimitState* longest = nullptr;
  for (const LimitState& each : limits) {
    if (each.violated && (longest == nullptr || each.reset_ms > longest->reset_ms)) {
      longest = &each;
    }
  }
  return longest;
}

std::optional<uint64_t> QuotaOutcome::remaining() const noexcept {
  const LimitState* const limit = violated();
  return limit != nullptr ? std::optional{limit->remaining} : std::nullopt;
}

std::optional<std::chrono::milliseconds> QuotaOutcome::reset() const noexcept {
  const LimitState* const limit = violated();
  return limit != nullptr ? std::optional{std::chrono::milliseconds{limit->reset_ms}}
                          : std::nullopt;
}

}  // namespace sluicegate
