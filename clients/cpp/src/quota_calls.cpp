#include "quota_calls.hpp"

#include <algorithm>
#include <array>

namespace sluicegate {
namespace {

using Kind = QuotaCall::Kind;

}  // namespace

// A call that ends a reservation may overtake calls that only charge: neither affects the other.
bool QuotaCall::may_overtake(const Gathered& frame) const noexcept {
  const auto* other = dynamic_cast<const QuotaCalls*>(&frame);
  const bool ends_reservation = kind == Kind::settle || kind == Kind::cancel;
  return ends_reservation && other != nullptr && other->only_charges();
}

QuotaCalls::QuotaCalls(const ClientOptions& options, const QuotaCall& first)
    : Gathered{options, first.may_wait()},
      kind_{first.kind},
      names_subjects_{first.names_subjects()},
      may_repeat_{first.may_repeat()},
      has_guard_{first.has_guard},
      flags_{first.flags},
      wait_limit_ms_{first.wait_limit_ms},
      lifetime_ms_{first.lifetime_ms},
      owner_{first.owner} {}

bool QuotaCalls::has_room(const QuotaCall& call, const Bounds& bounds) const noexcept {
  const bool agrees = call.kind == kind_ && call.flags == flags_ &&
                      call.wait_limit_ms == wait_limit_ms_ && call.lifetime_ms == lifetime_ms_ &&
                      call.owner == owner_ && call.may_repeat() == may_repeat_ &&
                      call.has_guard == has_guard_;
  if (!agrees || entries_count() >= std::min<size_t>(bounds.entries_max, quota_entries_max)) {
    return false;
  }
  size_t bytes = frame_bytes() + call.client_id.size() + 64;
  for (const std::string_view subject : call.subjects) bytes += subject.size() + 2;
  return bytes <= bounds.bytes_max;
}

QuotaCalls::Text QuotaCalls::keep_text(std::string_view text) {
  const auto begin = static_cast<uint32_t>(texts_.size());
  texts_.append(text);
  return {begin, static_cast<uint32_t>(text.size())};
}

uint32_t QuotaCalls::add(const QuotaCall& call, Target target, Clock::time_point deadline) {
  const uint32_t entry = add_entry(std::move(target), deadline);
  if (names_subjects_) {
    first_subjects_.push_back(static_cast<uint32_t>(subjects_.size()));
    subject_counts_.push_back(static_cast<uint8_t>(call.subjects.size()));
    for (const std::string_view subject : call.subjects) subjects_.push_back(keep_text(subject));
    client_ids_.push_back(keep_text(call.client_id));
    has_client_ids_ |= !call.client_id.empty();
  } else {
    reservations_.push_back(call.reservation);
  }
  put(requests_, entry, call.requests, keep);
  put(input_tokens_, entry, call.input_tokens, unset);
  put(cached_input_tokens_, entry, call.cached_input_tokens, unset);
  put(output_tokens_, entry, call.output_tokens, unset);
  put(costs_, entry, call.cost, unset);
  return entry;
}

size_t QuotaCalls::frame_bytes() const {
  size_t bytes = head_bytes + list_bytes(texts_.size()) + list_bytes(owner_.size() + 1) +
                 list_bytes(2 * subjects_.size()) + list_bytes(subject_counts_.size()) +
                 list_bytes(2 * client_ids_.size()) + list_bytes(8 * reservations_.size()) +
                 list_bytes(4 * requests_.size());
  for (const auto* column : {&input_tokens_, &cached_input_tokens_, &output_tokens_, &costs_}) {
    bytes += 8 * column->size();
  }
  return bytes;
}

bool QuotaCalls::encode(std::vector<uint64_t>& out) {
  if (names_subjects_) {
    encode_by_subject(out);
  } else {
    encode_by_reservation(out);
  }
  return true;
}

// Reserve, Check, Record and Consume.
void QuotaCalls::encode_by_subject(std::vector<uint64_t>& out) {
  thread_local std::vector<std::string_view> subjects, client_ids;
  thread_local std::vector<uint8_t> counts;
  thread_local std::vector<uint32_t> requests;
  thread_local std::array<std::vector<uint64_t>, 4> amounts;
  subjects.clear();
  client_ids.clear();
  counts.clear();
  for (size_t place = 0; place < requested_count(); ++place) {
    const size_t entry = entry_at(place);
    for (uint32_t i = 0; i < subject_counts_[entry]; ++i) {
      subjects.push_back(view(subjects_[first_subjects_[entry] + i]));
    }
    counts.push_back(subject_counts_[entry]);
    if (has_client_ids_) client_ids.push_back(view(client_ids_[entry]));
  }
  const bool one_each = std::all_of(counts.begin(), counts.end(), [](auto n) { return n == 1; });
  if (one_each) counts.clear();
  if (kind_ == Kind::record || kind_ == Kind::consume) {
    const Record record{.flags = flags_,
                        .subjects = subjects,
                        .subject_counts = counts,
                        .requests = requested(requests_, requests),
                        .input_tokens = requested(input_tokens_, amounts[0]),
                        .cached_input_tokens = requested(cached_input_tokens_, amounts[1]),
                        .output_tokens = requested(output_tokens_, amounts[2]),
                        .costs = requested(costs_, amounts[3]),
                        .ids = client_ids};
    if (kind_ == Kind::record) return sluicegate::encode(id, record, out);
    return sluicegate::encode(id, Consume{record, wait_limit_ms_}, out);
  }
  const Reserve reserve{.flags = flags_,
                        .wait_limit_ms = wait_limit_ms_,
                        .lifetime_ms = lifetime_ms_,
                        .subjects = subjects,
                        .subject_counts = counts,
                        .requests = requested(requests_, requests),
                        .input_tokens = requested(input_tokens_, amounts[0]),
                        .max_output_tokens = requested(output_tokens_, amounts[1]),
                        .costs = requested(costs_, amounts[2]),
                        .ids = client_ids,
                        .owner = owner_};
  if (kind_ == Kind::check) return sluicegate::encode(id, Check{reserve}, out);
  sluicegate::encode(id, reserve, out);
}

// Settle, Cancel and Extend.
void QuotaCalls::encode_by_reservation(std::vector<uint64_t>& out) {
  thread_local std::vector<uint64_t> reservations;
  thread_local std::vector<uint32_t> requests;
  thread_local std::array<std::vector<uint64_t>, 4> amounts;
  const auto named = requested(reservations_, reservations);
  if (kind_ == Kind::cancel) {
    return sluicegate::encode(id, Cancel{.flags = flags_, .reservations = named}, out);
  }
  if (kind_ == Kind::extend) {
    return sluicegate::encode(id, Extend{.reservations = named, .lifetime_ms = lifetime_ms_}, out);
  }
  sluicegate::encode(id,
                     Settle{.reservations = named,
                            .requests = requested(requests_, requests),
                            .input_tokens = requested(input_tokens_, amounts[0]),
                            .cached_input_tokens = requested(cached_input_tokens_, amounts[1]),
                            .output_tokens = requested(output_tokens_, amounts[2]),
                            .costs = requested(costs_, amounts[3])},
                     out);
}

void QuotaCalls::take(const Answer& answer, Finished& finished) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) return take_refusal(*refusal, finished);
  if (const auto* answers = std::get_if<QuotaAnswers>(&answer)) {
    take_answers(*answers, finished);
  } else if (const auto* granted = std::get_if<Granted>(&answer)) {
    take_granted(*granted, finished);
  } else {
    throw_unexpected(answer);
  }
}

void QuotaCalls::take_answers(const QuotaAnswers& answers, Finished& finished) {
  note_decided(answers.codes.size());
  auto limit = answers.limits.begin();
  for (size_t place = 0; place < requested_count(); ++place) {
    const size_t entry = entry_at(place);
    QuotaOutcome* outcome = is_abandoned(entry) ? nullptr : target(entry).place;
    const auto first = limit;
    while (limit != answers.limits.end() && limit->entry == place) ++limit;
    if (outcome != nullptr) {
      outcome->retry_after_ms = answers.retry_after_ms.empty() ? 0 : answers.retry_after_ms[place];
      outcome->limits.assign(first, limit);
      for (LimitState& each : outcome->limits) each.entry = 0;
    }
    const uint64_t reservation = answers.reservations.empty() ? 0 : answers.reservations[place];
    decide(entry, answers.codes[place], reservation, finished);
  }
}

void QuotaCalls::take_granted(const Granted& granted, Finished& finished) {
  if (granted.codes.size() != granted.entries.size()) {
    throw ProtocolError("the server granted a Reserve or Consume without codes");
  }
  for (size_t i = 0; i < granted.entries.size(); ++i) {
    const uint64_t reservation = granted.reservations.empty() ? 0 : granted.reservations[i];
    const size_t entry = take_out_of_queue(granted.entries[i]);
    if (QuotaOutcome* outcome = is_abandoned(entry) ? nullptr : target(entry).place) {
      outcome->retry_after_ms = granted.retry_after_ms.empty() ? 0 : granted.retry_after_ms[i];
    }
    decide(entry, granted.codes[i], reservation, finished);
  }
}

void QuotaCalls::decide(size_t entry, QuotaCode code, uint64_t reservation, Finished& finished) {
  if (code == QuotaCode::queued) return put_in_queue(entry, finished);
  if (QuotaOutcome* outcome = is_abandoned(entry) ? nullptr : target(entry).place) {
    outcome->code = code;
    outcome->reservation = reservation;
    outcome->instance_id = finished.instance_id;
  }
  // A call with a client id can be repeated and then gets this reservation.
  const bool has_client_id = names_subjects_ && client_ids_[entry].size > 0;
  const bool is_late = has_guard_ && is_abandoned(entry);
  const bool is_unclaimed = conclude(entry, outcome_of(code, policy_), finished) || is_late;
  if (is_unclaimed && reservation != 0 && !has_client_id) {
    finished.to_release.push_back({.key = {}, .reservation = reservation});
  }
}

}  // namespace sluicegate
