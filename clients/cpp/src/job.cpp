#include "job.hpp"

#include <algorithm>

#include "handle_table.hpp"

namespace sluicegate {
namespace {

using Clock = Waiter::Clock;

constexpr size_t head_bytes = 16 * sizeof(uint64_t);  // of any frame, its columns' pointers too

// A list's elements fill whole words.
constexpr size_t list_bytes(size_t bytes) noexcept {
  return (bytes + 7) / 8 * 8;
}

// A server that shuts down is no caller's mistake.
Failure failure_of(const Refusal& refusal) noexcept {
  return refusal.code == ErrorCode::draining ? Failure::draining : Failure::refused;
}

[[noreturn]] void throw_misfit() {
  throw ProtocolError("the server answered other entries than it was asked");
}

}  // namespace

Outcome outcome_of(Failure failure, OnFailure policy) noexcept {
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

// Who shuts down has not refused by a limit.
Outcome outcome_of(Verdict verdict, OnFailure policy) noexcept {
  if (verdict == Verdict::draining) return outcome_of(Failure::draining, policy);
  return {verdict, Failure::none};
}

// -------------------------------------------------------------------------------------- Calls

void Calls::begin_anew(CallTerms terms) {
  terms_ = terms;
  key_bytes_.clear();
  key_ends_.clear();
  costs_.clear();
  max_requests_.clear();
  max_requests_in_queue_.clear();
  targets_.clear();
  deadlines_.clear();
  states_.clear();
  order_.clear();
  has_gaps_ = is_sent_ = is_decided_ = false;
  left_ = 0;
}

bool Calls::has_room(const CallTerms& terms, size_t key_bytes,
                     const Bounds& bounds) const noexcept {
  return terms == terms_ && targets_.size() < bounds.entries_max &&
         frame_bytes() + key_bytes + 32 <= bounds.bytes_max;
}

void Calls::put(std::vector<uint32_t>& column, size_t entry, uint32_t value, uint32_t absent) {
  if (column.empty()) {
    if (value == absent) return;
    column.assign(entry, absent);
  }
  column.push_back(value);
}

uint32_t Calls::add(std::string_view key, const AcquireOptions& options, Target target,
                    Clock::time_point deadline) {
  const auto entry = static_cast<uint32_t>(targets_.size());
  key_bytes_.append(key);
  key_ends_.push_back(static_cast<uint32_t>(key_bytes_.size()));
  put(costs_, entry, options.cost, 1);
  put(max_requests_, entry, options.max_requests, keep);
  put(max_requests_in_queue_, entry, options.max_requests_in_queue, keep);
  targets_.push_back(std::move(target));
  deadlines_.push_back(deadline);
  states_.push_back(open);
  ++left_;
  return entry;
}

std::string_view Calls::key(size_t entry) const noexcept {
  const size_t begin = entry == 0 ? 0 : key_ends_[entry - 1];
  return std::string_view{key_bytes_}.substr(begin, key_ends_[entry] - begin);
}

size_t Calls::frame_bytes() const {
  const size_t count = targets_.size();
  size_t bytes = head_bytes + list_bytes(key_bytes_.size()) + list_bytes(2 * count);
  for (const auto* column : {&costs_, &max_requests_, &max_requests_in_queue_}) {
    bytes += list_bytes(4 * column->size());
  }
  return bytes;
}

// A column's elements of the entries that are asked.
std::span<const uint32_t> Calls::asked(const std::vector<uint32_t>& column,
                                       std::vector<uint32_t>& scratch) const {
  if (order_.empty() || column.empty()) return column;
  scratch.clear();
  for (const uint32_t entry : order_) scratch.push_back(column[entry]);
  return scratch;
}

bool Calls::encode(std::vector<uint64_t>& out) {
  thread_local std::vector<std::string_view> keys;
  thread_local std::vector<uint32_t> costs, max_requests, max_requests_in_queue;
  keys.clear();
  for (size_t place = 0; place < asked_count(); ++place) keys.push_back(key(entry_at(place)));
  if (terms_.is_release) {
    sluicegate::encode(id, Release{.keys = keys, .costs = asked(costs_, costs)}, out);
    return true;
  }
  sluicegate::encode(
      id,
      Acquire{.keys = keys,
              .costs = asked(costs_, costs),
              .max_requests = asked(max_requests_, max_requests),
              .max_requests_in_queue = asked(max_requests_in_queue_, max_requests_in_queue),
              .all_may_wait = terms_.may_wait,
              .wait_limit_ms = terms_.wait_limit_ms},
      out);
  return true;
}

// Who has left is not asked for.
bool Calls::prepare() {
  is_sent_ = true;
  if (!has_gaps_) return true;
  order_.clear();
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if ((states_[i] & complete) == 0) order_.push_back(i);
  }
  return !order_.empty();
}

bool Calls::begin_repeat() {
  is_sent_ = is_decided_ = false;
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if ((states_[i] & complete) == 0 && (states_[i] & abandoned) != 0) {
      states_[i] |= complete;
      --left_;
    }
    has_gaps_ |= (states_[i] & complete) != 0;
    if ((states_[i] & complete) != 0) continue;
    states_[i] &= static_cast<uint8_t>(~queued);
    Waiter* waiter = targets_[i].waiter;
    if (waiter != nullptr && waiter->is_listed) waiter->is_in_line = false;
  }
  return left_ > 0;
}

// A column of one byte stands for all of them, so this looks at each byte there is.
bool Calls::will_wait(const Answer& answer) const {
  const auto* verdicts = std::get_if<Verdicts>(&answer);
  if (verdicts == nullptr) return std::holds_alternative<Granted>(answer);
  const auto bytes = verdicts->verdicts.bytes();
  return std::find(bytes.begin(), bytes.end(), static_cast<uint8_t>(Verdict::queued)) !=
         bytes.end();
}

void Calls::take(const Answer& answer, Finished& finished) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) return take_refusal(*refusal, finished);
  if (terms_.is_release) {
    if (!std::holds_alternative<Done>(answer)) throw_unexpected(answer);
    for (size_t i = 0; i < asked_count(); ++i) decide(entry_at(i), Verdict::approved, finished);
  } else if (const auto* verdicts = std::get_if<Verdicts>(&answer)) {
    take_verdicts(*verdicts, finished);
  } else if (const auto* granted = std::get_if<Granted>(&answer)) {
    take_granted(*granted, finished);
  } else {
    throw_unexpected(answer);
  }
}

void Calls::take_verdicts(const Verdicts& verdicts, Finished& finished) {
  if (verdicts.verdicts.size() != asked_count() || std::exchange(is_decided_, true)) throw_misfit();
  for (size_t i = 0; i < asked_count(); ++i) decide(entry_at(i), verdicts.verdicts[i], finished);
}

void Calls::take_granted(const Granted& granted, Finished& finished) {
  for (size_t i = 0; i < granted.entries.size(); ++i) {
    if (granted.entries[i] >= asked_count()) throw_misfit();
    const size_t entry = entry_at(granted.entries[i]);
    if ((states_[entry] & queued) == 0) throw_misfit();
    states_[entry] &= static_cast<uint8_t>(~queued);
    decide(entry, granted.verdicts[i], finished);
  }
}

void Calls::take_refusal(const Refusal& refusal, Finished& finished) {
  for (const Target& target : targets_) {
    if (target.waiter != nullptr) target.waiter->note_refusal(refusal.code, refusal.text);
  }
  fail(failure_of(refusal), finished);
}

void Calls::decide(size_t entry, Verdict verdict, Finished& finished) {
  if (verdict == Verdict::queued) return put_in_line(entry, finished);
  if ((states_[entry] & abandoned) == 0) {
    return finish(entry, outcome_of(verdict, policy_), finished);
  }
  states_[entry] |= complete;
  --left_;
  const bool was_used = (states_[entry] & used) != 0;
  if (verdict == Verdict::approved && !was_used && !terms_.is_release) {
    const uint32_t cost = costs_.empty() ? 1 : costs_[entry];
    finished.to_give_back.push_back({std::string{key(entry)}, cost});
  }
}

void Calls::put_in_line(size_t entry, Finished& finished) {
  if (!terms_.may_wait) throw ProtocolError("the server queued an entry that may not wait");
  states_[entry] |= queued;
  Waiter* waiter = targets_[entry].waiter;
  if (waiter != nullptr && waiter->is_listed) waiter->is_in_line = true;
  if ((states_[entry] & (cancelled | abandoned)) != 0) withdraw(entry, finished);
}

void Calls::withdraw(size_t entry, Finished& finished) const {
  const auto found = std::find(order_.begin(), order_.end(), entry);
  const auto place = found == order_.end() ? entry : static_cast<size_t>(found - order_.begin());
  finished.to_withdraw.push_back(static_cast<uint32_t>(place));
}

void Calls::finish(size_t entry, const Outcome& outcome, Finished& finished) {
  if ((states_[entry] & complete) != 0) return;
  states_[entry] |= complete;
  --left_;
  if ((states_[entry] & abandoned) != 0) return;
  ++finished.calls;
  finished.add(std::exchange(targets_[entry], {}), outcome);
}

void Calls::fail(Failure failure, Finished& finished) {
  for (size_t i = 0; i < targets_.size(); ++i) finish(i, outcome_of(failure, policy_), finished);
}

// Who waited in line was refused for want of permits, not for want of an answer.
void Calls::abandon(uint32_t entry, Finished& finished) {
  if ((states_[entry] & (complete | abandoned)) != 0) return;
  const bool stood_in_line = (states_[entry] & queued) != 0;
  const Outcome outcome = stood_in_line ? Outcome{Verdict::wait_limit, Failure::none}
                                        : outcome_of(Failure::timed_out, policy_);
  ++finished.calls;
  finished.add(std::exchange(targets_[entry], {}), outcome);
  if (!is_sent_) {
    states_[entry] |= complete;
    has_gaps_ = true;
    --left_;
    return;
  }
  states_[entry] |= abandoned;
  if (outcome.approved()) states_[entry] |= used;
  if (stood_in_line) withdraw(entry, finished);
}

bool Calls::leave(const Waiter& waiter, Finished& finished) {
  for (uint32_t i = 0; i < targets_.size(); ++i) {
    if (targets_[i].waiter == &waiter) abandon(i, finished);
  }
  return left_ == 0;
}

void Calls::cancel(uint32_t entry, Finished& finished) {
  if (entry >= states_.size() || (states_[entry] & (complete | abandoned | cancelled)) != 0) return;
  states_[entry] |= cancelled;
  if ((states_[entry] & queued) != 0) withdraw(entry, finished);
}

Clock::time_point Calls::expire(Clock::time_point now, Finished& finished) {
  auto earliest = Clock::time_point::max();
  for (uint32_t i = 0; i < targets_.size(); ++i) {
    if ((states_[i] & (complete | abandoned)) != 0) continue;
    if (deadlines_[i] <= now) {
      abandon(i, finished);
    } else {
      earliest = std::min(earliest, deadlines_[i]);
    }
  }
  return earliest;
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
    verdict = outcome_of(Failure::draining, policy_).verdict;
    ++failed;
  }
  waiter_->note_failure(Failure::draining, failed);
}

void Slice::fail(Failure failure, Finished& finished) {
  if (waiter_ == nullptr) return;
  waiter_->note_failure(failure, count_);
  complete_with(outcome_of(failure, policy_).verdict, finished);
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

BatchColumns::BatchColumns(const AcquireOptions& options, size_t count)
    : costs(options.cost == 1 ? 0 : count, options.cost),
      max_requests(options.max_requests == keep ? 0 : count, options.max_requests),
      max_requests_in_queue(options.max_requests_in_queue == keep ? 0 : count,
                            options.max_requests_in_queue) {}

size_t BatchColumns::bytes(size_t count) const noexcept {
  size_t sum = 0;
  for (const auto* column : {&costs, &max_requests, &max_requests_in_queue}) {
    if (!column->empty()) sum += list_bytes(4 * count);
  }
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
    const uint64_t seat = table_.seat(handles_[i]);
    is_held &= HandleTable::link_tag_of(seat) == link_tag_;
    server_handles[i] = HandleTable::server_handle_of(seat);
  }
  if (!is_held) return false;
  AcquireByHandle acquire{.handles = server_handles};
  columns_.put(acquire, count());
  sluicegate::encode(id, acquire, out);
  return true;
}

void HandleSlice::give_up(Finished& finished) {
  if (waiter() != nullptr) complete_with(not_held, finished);
}

// ----------------------------------------------------------------------------------- Question

size_t Question::frame_bytes() const {
  return head_bytes;  // small, or sent by who keeps to the server's bounds
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
