#include "gathered.hpp"

#include <algorithm>

namespace sluicegate {

void Gathered::begin_anew(bool may_wait) {
  may_wait_ = may_wait;
  targets_.clear();
  deadlines_.clear();
  states_.clear();
  order_.clear();
  has_gaps_ = is_sent_ = is_decided_ = false;
  may_be_joined_ = true;
  left_ = 0;
}

uint32_t Gathered::add_entry(Target target, Clock::time_point deadline) {
  const auto entry = static_cast<uint32_t>(targets_.size());
  targets_.push_back(std::move(target));
  deadlines_.push_back(deadline);
  states_.push_back(open);
  ++left_;
  return entry;
}

// The frame does not request the entries of callers who have left.
bool Gathered::prepare() {
  is_sent_ = true;
  if (!has_gaps_) return true;
  order_.clear();
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if ((states_[i] & complete) == 0) order_.push_back(i);
  }
  return !order_.empty();
}

bool Gathered::begin_repeat() {
  is_sent_ = is_decided_ = may_be_joined_ = false;
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if ((states_[i] & complete) == 0 && (states_[i] & abandoned) != 0) {
      states_[i] |= complete;
      --left_;
    }
    has_gaps_ |= (states_[i] & complete) != 0;
    if ((states_[i] & complete) != 0) continue;
    states_[i] &= static_cast<uint8_t>(~queued);
    Waiter* waiter = targets_[i].waiter;
    if (waiter != nullptr && waiter->is_listed) waiter->is_in_queue = false;
  }
  return left_ > 0;
}

// A column of one byte stands for all entries, so this searches the bytes, not the entries.
bool Gathered::will_wait(const Answer& answer) const {
  const auto holds = [](std::span<const uint8_t> bytes, uint8_t queued_byte) {
    return std::find(bytes.begin(), bytes.end(), queued_byte) != bytes.end();
  };
  if (const auto* verdicts = std::get_if<Verdicts>(&answer)) {
    return holds(verdicts->verdicts.bytes(), static_cast<uint8_t>(Verdict::queued));
  }
  if (const auto* answers = std::get_if<QuotaAnswers>(&answer)) {
    return holds(answers->codes.bytes(), static_cast<uint8_t>(QuotaCode::queued));
  }
  return std::holds_alternative<Granted>(answer);
}

void Gathered::note_decided(size_t answered_count) {
  if (answered_count != requested_count() || std::exchange(is_decided_, true)) throw_misfit();
}

size_t Gathered::take_out_of_queue(uint32_t place) {
  if (place >= requested_count()) throw_misfit();
  const size_t entry = entry_at(place);
  if ((states_[entry] & queued) == 0) throw_misfit();
  states_[entry] &= static_cast<uint8_t>(~queued);
  return entry;
}

void Gathered::take_refusal(const Refusal& refusal, Finished& finished) {
  for (const Target& target : targets_) {
    if (target.waiter != nullptr) target.waiter->note_refusal(refusal.code, refusal.text);
  }
  fail(failure_of(refusal), finished);
}

// The targets of complete entries are empty.
void Gathered::note_moved(const uint32_t&) noexcept {
  for (const Target& target : targets_) {
    if (target.waiter != nullptr) target.waiter->was_taken_over = true;
  }
}

size_t Gathered::open_callbacks() const noexcept {
  return static_cast<size_t>(std::count_if(targets_.begin(), targets_.end(),
                                           [](const Target& each) { return bool{each.callback}; }));
}

bool Gathered::conclude(size_t entry, const Decided& outcome, Finished& finished) {
  if (!is_abandoned(entry)) {
    finish(entry, outcome, finished);
    return false;
  }
  states_[entry] |= complete;
  --left_;
  return (states_[entry] & used) == 0;
}

void Gathered::put_in_queue(size_t entry, Finished& finished) {
  if (!may_wait_) throw ProtocolError("the server queued an entry that may not wait");
  states_[entry] |= queued;
  Waiter* waiter = targets_[entry].waiter;
  if (waiter != nullptr && waiter->is_listed) waiter->is_in_queue = true;
  if ((states_[entry] & (cancelled | abandoned)) != 0) withdraw(entry, finished);
}

void Gathered::withdraw(size_t entry, Finished& finished) const {
  const auto found = std::find(order_.begin(), order_.end(), entry);
  const auto place = found == order_.end() ? entry : static_cast<size_t>(found - order_.begin());
  finished.to_withdraw.push_back(static_cast<uint32_t>(place));
}

void Gathered::finish(size_t entry, const Decided& outcome, Finished& finished) {
  if ((states_[entry] & complete) != 0) return;
  states_[entry] |= complete;
  --left_;
  if ((states_[entry] & abandoned) != 0) return;
  ++finished.calls;
  targets_[entry].note(outcome);
  finished.add(std::exchange(targets_[entry], {}), outcome);
}

void Gathered::fail(Failure failure, Finished& finished) {
  for (size_t i = 0; i < targets_.size(); ++i) finish(i, outcome_of(failure, policy_), finished);
}

// A caller that waited in the queue got no permit in time, but it did get an answer: its outcome is
// `wait_limit`.
void Gathered::abandon(uint32_t entry, Finished& finished) {
  if ((states_[entry] & (complete | abandoned)) != 0) return;
  const bool was_queued = (states_[entry] & queued) != 0;
  const Decided outcome = was_queued ? Decided{Verdict::wait_limit, Failure::none}
                                     : outcome_of(Failure::timed_out, policy_);
  ++finished.calls;
  targets_[entry].note(outcome);
  finished.add(std::exchange(targets_[entry], {}), outcome);
  if (!is_sent_) {
    states_[entry] |= complete;
    has_gaps_ = true;
    --left_;
    return;
  }
  states_[entry] |= abandoned;
  if (outcome.approved()) states_[entry] |= used;
  const bool is_withdrawn = (states_[entry] & cancelled) != 0;
  if (was_queued && !is_withdrawn) withdraw(entry, finished);
}

bool Gathered::leave(const Waiter& waiter, Finished& finished) {
  for (uint32_t i = 0; i < targets_.size(); ++i) {
    if (targets_[i].waiter == &waiter) abandon(i, finished);
  }
  return left_ == 0;
}

void Gathered::cancel(uint32_t entry, Finished& finished) {
  if (entry >= states_.size() || (states_[entry] & (complete | abandoned | cancelled)) != 0) return;
  states_[entry] |= cancelled;
  if ((states_[entry] & queued) != 0) withdraw(entry, finished);
}

Gathered::Clock::time_point Gathered::expire(Clock::time_point now, Finished& finished) {
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

}  // namespace sluicegate
