#include "calls.hpp"

namespace sluicegate {

void Calls::begin_anew(const Call& first) {
  Gathered::begin_anew(first.options.may_wait);
  terms_ = first.terms();
  key_bytes_.clear();
  key_ends_.clear();
  costs_.clear();
  max_requests_.clear();
  max_requests_in_queue_.clear();
  window_ms_.clear();
}

bool Calls::has_room(const Call& call, const Bounds& bounds) const noexcept {
  return call.terms() == terms_ && entries_count() < bounds.entries_max &&
         frame_bytes() + call.key.size() + 40 <= bounds.bytes_max;
}

uint32_t Calls::add(const Call& call, Target target, Clock::time_point deadline) {
  const uint32_t entry = add_entry(std::move(target), deadline);
  key_bytes_.append(call.key);
  key_ends_.push_back(static_cast<uint32_t>(key_bytes_.size()));
  put(costs_, entry, call.options.cost, 1U);
  put(max_requests_, entry, call.options.max_requests, keep);
  put(max_requests_in_queue_, entry, call.options.max_requests_in_queue, keep);
  put(window_ms_, entry, call.options.window_ms, keep_window);
  return entry;
}

std::string_view Calls::key(size_t entry) const noexcept {
  const size_t begin = entry == 0 ? 0 : key_ends_[entry - 1];
  return std::string_view{key_bytes_}.substr(begin, key_ends_[entry] - begin);
}

size_t Calls::frame_bytes() const {
  size_t bytes = head_bytes + list_bytes(key_bytes_.size()) + list_bytes(2 * entries_count());
  for (const auto* column : {&costs_, &max_requests_, &max_requests_in_queue_}) {
    bytes += list_bytes(4 * column->size());
  }
  return bytes + list_bytes(8 * window_ms_.size());
}

bool Calls::encode(std::vector<uint64_t>& out) {
  thread_local std::vector<std::string_view> keys;
  thread_local std::vector<uint32_t> costs, max_requests, max_requests_in_queue;
  thread_local std::vector<uint64_t> window_ms;
  keys.clear();
  for (size_t place = 0; place < requested_count(); ++place) keys.push_back(key(entry_at(place)));
  if (terms_.is_release) {
    sluicegate::encode(id, Release{.keys = keys, .costs = requested(costs_, costs)}, out);
    return true;
  }
  sluicegate::encode(
      id,
      Acquire{.keys = keys,
              .costs = requested(costs_, costs),
              .max_requests = requested(max_requests_, max_requests),
              .max_requests_in_queue = requested(max_requests_in_queue_, max_requests_in_queue),
              .window_ms = requested(window_ms_, window_ms),
              .all_may_wait = terms_.may_wait,
              .wait_limit_ms = terms_.wait_limit_ms,
              .details = terms_.wants_details ? outcome_details : uint8_t{0}},
      out);
  return true;
}

void Calls::take(const Answer& answer, Finished& finished) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) return take_refusal(*refusal, finished);
  if (terms_.is_release && std::holds_alternative<Done>(answer)) {
    for (size_t i = 0; i < requested_count(); ++i) decide(entry_at(i), Verdict::approved, finished);
  } else if (const auto* verdicts = std::get_if<Verdicts>(&answer)) {
    take_verdicts(*verdicts, finished);
  } else if (const auto* granted = std::get_if<Granted>(&answer)) {
    take_granted(*granted, finished);
  } else {
    throw_unexpected(answer);
  }
}

void Calls::take_verdicts(const Verdicts& verdicts, Finished& finished) {
  note_decided(verdicts.verdicts.size());
  for (size_t i = 0; i < requested_count(); ++i) {
    if (terms_.wants_details) take_details(entry_at(i), verdicts.details, i);
    decide(entry_at(i), verdicts.verdicts[i], finished);
  }
}

void Calls::take_granted(const Granted& granted, Finished& finished) {
  if (granted.verdicts.size() != granted.entries.size()) {
    throw ProtocolError("the server granted an Acquire without verdicts");
  }
  for (size_t i = 0; i < granted.entries.size(); ++i) {
    const size_t entry = take_out_of_queue(granted.entries[i]);
    if (terms_.wants_details) take_details(entry, granted.details, i);
    decide(entry, granted.verdicts[i], finished);
  }
}

// Of the entry at a place of the answer.
void Calls::take_details(size_t entry, const Details& details, size_t place) {
  if (is_abandoned(entry) || target(entry).details == nullptr) return;
  put_details(*target(entry).details, details, place);
}

void Calls::decide(size_t entry, Verdict verdict, Finished& finished) {
  if (verdict == Verdict::queued) return put_in_queue(entry, finished);
  const bool is_unclaimed = conclude(entry, outcome_of(verdict, policy_), finished);
  if (!is_unclaimed || verdict != Verdict::approved || terms_.is_release) return;
  const uint32_t cost = costs_.empty() ? 1 : costs_[entry];
  if (cost > 0) finished.to_release.push_back({.key = std::string{key(entry)}, .cost = cost});
}

}  // namespace sluicegate
