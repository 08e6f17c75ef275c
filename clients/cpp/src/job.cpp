#include "job.hpp"

#include <algorithm>

#include "handle_table.hpp"

namespace sluicegate {

Failure failure_of(const Refusal& refusal) noexcept {
  return refusal.code == ErrorCode::draining ? Failure::draining : Failure::refused;
}

void throw_misfit() {
  throw ProtocolError("the server answered entries that the client did not request");
}

Decided outcome_of(Failure failure, OnFailure policy) noexcept {
  if (failure == Failure::refused) return {Verdict::none, failure};  // a mistake, not an outage
  switch (policy) {
    case OnFailure::open:
      return {Verdict::approved, failure};
    case OnFailure::closed:
      return {Verdict::denied, failure};
    case OnFailure::error:
      break;
  }
  return {Verdict::none, failure};
}

// A server that is shutting down has not denied by a limit: that is a failure.
Decided outcome_of(Verdict verdict, OnFailure policy) noexcept {
  if (verdict == Verdict::draining) return outcome_of(Failure::draining, policy);
  return {verdict, Failure::none};
}

Decided outcome_of(QuotaCode code, OnFailure policy) noexcept {
  if (code == QuotaCode::draining) return outcome_of(Failure::draining, policy);
  return {admits(code) ? Verdict::approved : Verdict::denied, Failure::none};
}

void Target::note(const Decided& outcome) const noexcept {
  if (details != nullptr) details->failure = outcome.failure;
  if (place == nullptr) return;
  if (outcome.failure == Failure::none && place->code != QuotaCode::none) return;
  place->failure = outcome.failure;
  if (outcome.verdict == Verdict::wait_limit) {
    place->code = QuotaCode::wait_limit;
  } else {
    place->code = outcome.approved() ? QuotaCode::ok : QuotaCode::none;
  }
}

// -------------------------------------------------------------------------------------- Slice

void Slice::take(const Answer& answer, Finished& finished) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) {
    if (waiter_ != nullptr) waiter_->note_refusal(refusal->code, refusal->text);
    return fail(failure_of(*refusal), finished);
  }
  const auto* answered = std::get_if<Verdicts>(&answer);
  if (answered == nullptr) throw_unexpected(answer);
  if (answered->verdicts.size() != count_) throw_misfit();
  if (waiter_ == nullptr) return;
  ++finished.calls;
  const std::span<Verdict> verdicts = waiter_->verdicts();
  if (places_.empty()) {
    answered->verdicts.copy_to(verdicts.subspan(first_, count_));
  } else {
    for (size_t i = 0; i < count_; ++i) verdicts[places_[i]] = answered->verdicts[i];
  }
  const auto draining = static_cast<uint8_t>(Verdict::draining);
  const auto bytes = answered->verdicts.bytes();
  if (std::find(bytes.begin(), bytes.end(), draining) != bytes.end()) note_draining();
  waiter_->complete(count_);
}

void Slice::note_draining() {
  size_t failed = 0;
  for (size_t i = 0; i < count_; ++i) {
    Verdict& verdict = waiter_->verdicts()[place(i)];
    if (verdict != Verdict::draining) continue;
    verdict = mark_of(Failure::draining);
    ++failed;
  }
  waiter_->note_failure(Failure::draining, failed);
}

void Slice::fail(Failure failure, Finished& finished) {
  if (waiter_ == nullptr) return;
  waiter_->note_failure(failure, count_);
  complete_with(mark_of(failure), finished);
}

void Slice::complete_with(Verdict verdict, Finished& finished) {
  ++finished.calls;
  for (size_t i = 0; i < count_; ++i) waiter_->verdicts()[place(i)] = verdict;
  waiter_->complete(count_);
}

bool Slice::leave(const Waiter& waiter, Finished& finished) {
  if (waiter_ != &waiter) return false;
  fail(Failure::timed_out, finished);
  waiter_ = nullptr;
  return true;
}

void put_details(Outcome& to, const Details& details, size_t place) noexcept {
  const auto at = [place](auto column) { return column.empty() ? 0 : column[place]; };
  to.limit = at(details.limit);
  to.remaining = at(details.remaining);
  to.window_ms = at(details.window_ms);
  to.reset_ms = at(details.reset_ms);
  to.retry_after_ms = at(details.retry_after_ms);
}

void reserve_details(BatchOutcome& batch) {
  const size_t count = batch.verdicts.size();
  batch.limit.resize(count);
  batch.remaining.resize(count);
  batch.window_ms.resize(count);
  batch.reset_ms.resize(count);
  batch.retry_after_ms.resize(count);
}

void put_details(BatchOutcome& batch, size_t index, const Outcome& outcome) noexcept {
  batch.limit[index] = outcome.limit;
  batch.remaining[index] = outcome.remaining;
  batch.window_ms[index] = outcome.window_ms;
  batch.reset_ms[index] = outcome.reset_ms;
  batch.retry_after_ms[index] = outcome.retry_after_ms;
}

void AcquireSlice::take(const Answer& answer, Finished& finished) {
  const auto* answered = std::get_if<Verdicts>(&answer);
  // The caller may be gone as soon as its verdicts are complete.
  if (details_ != nullptr && answered != nullptr && answered->verdicts.size() == count() &&
      waiter() != nullptr) {
    for (size_t i = 0; i < count(); ++i) {
      Outcome outcome;
      put_details(outcome, answered->details, i);
      put_details(*details_, place(i), outcome);
    }
  }
  Slice::take(answer, finished);
}

BatchColumns::BatchColumns(const AcquireOptions& options, size_t count)
    : details{options.wants_details ? outcome_details : uint8_t{0}},
      costs(options.cost == 1 ? 0 : count, options.cost),
      max_requests(options.max_requests == keep ? 0 : count, options.max_requests),
      max_requests_in_queue(options.max_requests_in_queue == keep ? 0 : count,
                            options.max_requests_in_queue),
      window_ms(options.window_ms == keep_window ? 0 : count, options.window_ms) {}

size_t BatchColumns::bytes(size_t count) const noexcept {
  size_t sum = 0;
  for (const auto* column : {&costs, &max_requests, &max_requests_in_queue}) {
    if (!column->empty()) sum += list_bytes(4 * count);
  }
  if (!window_ms.empty()) sum += list_bytes(8 * count);
  return sum;
}

size_t KeySlice::frame_bytes() const {
  return head_bytes + list_bytes(key_bytes_) + list_bytes(2 * count()) + columns_.bytes(count());
}

bool KeySlice::encode(std::vector<uint64_t>& out) {
  Acquire acquire{.keys = keys_};
  columns_.put(acquire, count());
  sluicegate::encode(id, acquire, out);
  return true;
}

size_t HandleSlice::frame_bytes() const {
  return head_bytes + list_bytes(4 * count()) + columns_.bytes(count());
}

bool HandleSlice::encode(std::vector<uint64_t>& out) {
  thread_local std::vector<uint32_t> server_handles;
  server_handles.resize(count());
  bool is_held = true;
  for (size_t i = 0; i < count(); ++i) {
    const uint64_t handle_slot = table_.handle_slot(handles_[i]);
    is_held &= HandleTable::link_tag_of(handle_slot) == link_tag_;
    server_handles[i] = HandleTable::server_handle_of(handle_slot);
  }
  if (!is_held) return false;
  AcquireByHandle acquire{.handles = server_handles};
  columns_.put(acquire, count());
  sluicegate::encode(id, acquire, out);
  return true;
}

void HandleSlice::complete_unsent(Finished& finished) {
  if (waiter() != nullptr) complete_with(not_held, finished);
}

// ----------------------------------------------------------------------------------- Question

size_t Question::frame_bytes() const {
  return head_bytes;  // small, or the caller keeps to the server's bounds
}

bool Question::leave(const Waiter& waiter, Finished& finished) {
  if (waiter_ != &waiter) return false;
  fail(Failure::timed_out, finished);
  waiter_ = nullptr;
  return true;
}

void Question::take(const Answer& answer, Finished& finished) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) {
    if (waiter_ != nullptr) waiter_->note_refusal(refusal->code, refusal->text);
    return fail(failure_of(*refusal), finished);
  }
  if (waiter_ == nullptr) return;
  take_(answer);
  ++finished.calls;
  waiter_->complete(1);
}

void Question::fail(Failure failure, Finished& finished) {
  if (waiter_ == nullptr) return;
  ++finished.calls;
  waiter_->note_failure(failure, 1);
  waiter_->complete(1);
}

}  // namespace sluicegate
