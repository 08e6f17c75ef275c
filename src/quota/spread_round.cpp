#include "quota/spread_round.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "quota/answer_holders.hpp"
#include "quota/obstacle.hpp"

namespace sluice::quota {

using api::Pass;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::SpreadCall;
using State = SpreadCall::State;

namespace {

// Of the calls that are left of earlier rounds.
constexpr size_t round_size_min = 32;

bool is_undecided(const SpreadCall& spread) noexcept {
  return spread.state == State::undecided;
}

// Whether a shard with a part of the call has a share in a pass of a round.
bool has_share(Pass pass, const QuotaCall& call, const SpreadCall& spread,
               api::ShardId shard) noexcept {
  if (pass == Pass::apply || pass == Pass::open) return applies_verdict(pass, call, spread, shard);
  if (pass == Pass::forget) return true;
  if (pass == Pass::look && !api::leaves_output_tokens(call)) return false;
  return is_undecided(spread) && !spread.awaits();
}

// The precedence that one shard gives: problems of subjects, in their order; a repeated id; limits.
QuotaCode verdict_of(const SpreadCall& spread) noexcept {
  if (spread.problem != QuotaCode::ok) return spread.problem;
  if (spread.code != QuotaCode::ok) return spread.code;
  if (spread.queue_fits_at_ns > 0) return QuotaCode::queue_ahead;
  if (spread.reservations_full) return QuotaCode::reservations_full;
  if (!spread.has_quota) return QuotaCode::unknown_subject_allowed;
  return spread.limits_anything ? QuotaCode::ok : QuotaCode::unlimited;
}

// Whether limits, or others that wait, are in the way of the call, and nothing else.
bool is_in_queues_way(const SpreadCall& spread) noexcept {
  return spread.problem == QuotaCode::ok && !spread.is_repeat &&
         (spread.code != QuotaCode::ok || spread.queue_fits_at_ns > 0);
}

// Whether the answer shows the limits that a shard found in the way of the call.
bool reports_before_verdict(const QuotaBatch& batch, uint32_t index) noexcept {
  const SpreadCall& spread = batch.spread[index];
  if (spread.state != State::refused) return spread.state == State::done;
  return shows_limits(batch, index) || is_in_queues_way(spread);
}

// The obstacle that all parts report together.
Obstacle obstacle_of(const SpreadCall& spread, QuotaCode verdict) noexcept {
  const bool is_by_limits = spread.code != QuotaCode::ok;
  return {.code = verdict,
          .fits_at_ns = is_by_limits ? spread.fits_at_ns : spread.queue_fits_at_ns,
          .earliest_ns = spread.earliest_ns};
}

// What becomes of a call that would be refused, if it may wait: `queued`, or why it does not.
QuotaCode code_of_newcomer(const QuotaCall& call, const SpreadCall& spread,
                           const Obstacle& obstacle, int64_t now_ns) noexcept {
  if (!api::may_wait(call)) return obstacle.code;
  const QuotaCode in_vain = why_no_wait(call, obstacle, now_ns);
  if (in_vain != QuotaCode::none) return in_vain;
  return spread.no_waiter_code == QuotaCode::none ? QuotaCode::queued : spread.no_waiter_code;
}

// The same of a call that waits already, and does not fit.
QuotaCode code_of_waiter(const QuotaCall& call, const SpreadCall& spread,
                         const Obstacle& obstacle) noexcept {
  if (spread.problem != QuotaCode::ok) return spread.problem;
  if (obstacle.fits_at_ns == base::never_ns) return final_code(obstacle);
  if ((call.flags & api::quota_flag::draining) != 0) return QuotaCode::draining;
  return spread.is_last_try ? QuotaCode::wait_limit : QuotaCode::queued;
}

void admit(const QuotaCall& call, SpreadCall& spread, api::QuotaAnswer& answer) noexcept {
  spread.state = State::admitted;
  if (call.op != QuotaOp::reserve) return;
  answer.reservation = spread.reservation;
  answer.state = api::ReservationState::open;
  answer.lifetime_ms = spread.lifetime_ms;
}

void conclude_one(QuotaBatch& batch, size_t index, int64_t now_ns) noexcept {
  const QuotaCall& call = batch.calls[index];
  SpreadCall& spread = batch.spread[index];
  api::QuotaAnswer& answer = batch.answers[index];
  const bool is_repeat = spread.is_repeat && spread.problem == QuotaCode::ok;
  if (spread.is_repeat && !is_repeat) answer = {};  // a shard has answered the repeat
  if (!is_repeat) answer.code = verdict_of(spread);
  spread.state = State::refused;
  if (api::admits(answer.code)) {
    if (!is_repeat) admit(call, spread, answer);
    return;
  }
  const Obstacle obstacle = obstacle_of(spread, answer.code);
  if (spread.is_try) {
    answer.code = code_of_waiter(call, spread, obstacle);
    // As of a waiter that is not being tried, the answer shows nothing else.
    if (answer.code == QuotaCode::draining) spread.code = QuotaCode::ok;
    if (answer.code == QuotaCode::draining) spread.queue_fits_at_ns = 0;
  } else if (is_in_queues_way(spread)) {
    answer.code = code_of_newcomer(call, spread, obstacle, now_ns);
  }
  if (answer.code == QuotaCode::queued) {
    spread.state = State::queued;
    answer.waiter = spread.waiters[0];
    return;
  }
  if (is_in_queues_way(spread)) {
    answer.retry_after_ms = retry_after_ms_of(answer.code, obstacle, now_ns);
  }
  set_retry_after(answer);
}

// A call that would be admitted beside one that has to wait for the same subject: it is decided
// anew, as if after that one.
void put_off(QuotaBatch& batch, size_t index) noexcept {
  SpreadCall& spread = batch.spread[index];
  spread.state = State::undecided;
  spread.awaits_own = true;
  batch.answers[index] = {};
}

// Forgets what shards have reported of calls for which the condition holds.
template <typename Condition>
void erase_reports(QuotaBatch& batch, Condition condition) noexcept {
  const auto first = batch.part_reports.begin() + batch.reports_kept;
  const auto left =
      std::remove_if(first, batch.part_reports.end(),
                     [&](const api::PartReport& report) { return condition(report.call); });
  batch.part_reports.erase(left, batch.part_reports.end());
}

bool visits_nodes(const QuotaBatch& batch, uint32_t index) noexcept {
  return std::any_of(batch.spread[index].shards.begin(), batch.spread[index].shards.end(),
                     api::is_node_stop);
}

// What a node is sent of a call, or less.
size_t visit_bytes_max(const QuotaBatch& batch, uint32_t index) noexcept {
  constexpr size_t fixed_bytes = 512;
  const QuotaCall& call = batch.calls[index];
  size_t bytes = fixed_bytes + call.client_id.size();
  for (const std::string_view name :
       std::span(batch.subjects).subspan(call.first_subject, call.subjects_count)) {
    bytes += name.size() + 2 * sizeof(uint64_t);
  }
  return bytes;
}

// So many calls, or fewer: a frame to another node has room for all that visit it.
void set_round_size(QuotaBatch& batch, size_t size) noexcept {
  constexpr size_t bytes_max = limits::frame_bytes_max - 1'024;
  size_t calls = 0;
  size_t bytes = 0;
  size = std::min(size, batch.undecided.size());
  for (size_t at = 0; at < size; ++at) {
    const uint32_t index = batch.undecided[at];
    if (!visits_nodes(batch, index)) continue;
    bytes += visit_bytes_max(batch, index);
    if (++calls > limits::forwarded_calls_max || (calls > 1 && bytes > bytes_max)) size = at;
  }
  batch.round_size = static_cast<uint32_t>(size);
}

// Makes the round's calls ready to be asked for.
void begin_round(QuotaBatch& batch) noexcept {
  ++batch.rounds_count;
  bool looks = false;
  for (const uint32_t index : batch.round()) {
    SpreadCall& spread = batch.spread[index];
    SpreadCall asked{
        .shards = spread.shards,
        .waiters = spread.waiters,
        .is_try = spread.is_try,
        .is_last_try = spread.is_last_try,
        .late_tries = spread.late_tries,
        .rounds = static_cast<uint16_t>(std::min(spread.rounds + 1, UINT16_MAX))};  // 1: the first
    asked.holds.fill(SpreadCall::no_hold);
    if (!asked.is_try) asked.waiters.fill(api::no_waiter);
    if (spread.is_unconfirmed) {
      asked.is_unconfirmed = true;
      asked.problem_place = spread.problem_place;
      asked.problem = spread.problem;
    }
    if (asked.rounds > 1) ++batch.calls_repeated;
    spread = asked;
    batch.answers[index] = {};
    looks |= api::leaves_output_tokens(batch.calls[index]);
  }
  erase_reports(batch, [&](uint32_t call) { return is_undecided(batch.spread[call]); });
  batch.reports_kept = static_cast<uint32_t>(batch.part_reports.size());
  batch.pass = looks ? Pass::look : Pass::ask;
}

// Every shard has applied the verdicts: calls that have one are done. Of the others twice as many
// take part in the next round, so that a batch whose calls are in the way of one another does not
// cost the square of their number.
void end_round(QuotaBatch& batch) noexcept {
  const auto is_decided = [&](uint32_t call) { return !is_undecided(batch.spread[call]); };
  for (const uint32_t call : batch.round()) {
    if (is_decided(call)) batch.spread[call].state = State::done;
  }
  const auto end = batch.undecided.begin() + batch.round_size;
  const auto left = std::remove_if(batch.undecided.begin(), end, is_decided);
  const auto decided_count = static_cast<size_t>(end - left);
  batch.undecided.erase(left, end);
  set_round_size(batch, std::max(round_size_min, 2 * decided_count));
}

// Brings the reports of all parts to the batch's limits, in the order of each call's subjects.
void merge_reports(QuotaBatch& batch) {
  const auto place_of = [](const api::PartReport& report) {
    return std::tuple(report.call, report.limit.subject, report.number);
  };
  std::sort(batch.part_reports.begin(), batch.part_reports.end(),
            [&](const auto& a, const auto& b) { return place_of(a) < place_of(b); });
  for (const api::PartReport& report : batch.part_reports) {
    api::QuotaAnswer& answer = batch.answers[report.call];
    if (answer.limits_count++ == 0) answer.first_limit = static_cast<uint32_t>(batch.limits.size());
    batch.limits.push_back(report.limit);
    if (api::admits(answer.code)) batch.limits.back().violated = false;
  }
  batch.part_reports.clear();
}

// The lowest shard, from a first one on, of those that it is shown.
class LowestShard {
 public:
  LowestShard(uint32_t from, uint32_t shards_count) noexcept : from_(from), lowest_(shards_count) {}

  void consider(uint32_t shard) noexcept {
    if (shard >= from_) lowest_ = std::min(lowest_, shard);
  }
  bool is_candidate(uint32_t shard) const noexcept { return shard >= from_ && shard < lowest_; }
  bool is_final() const noexcept { return lowest_ <= from_; }  // none can be lower
  uint32_t get() const noexcept { return lowest_; }

 private:
  const uint32_t from_;
  uint32_t lowest_;
};

void consider_shares(const QuotaBatch& batch, LowestShard& lowest) noexcept {
  for (const uint32_t index : batch.round()) {
    if (lowest.is_final()) return;
    const QuotaCall& call = batch.calls[index];
    const SpreadCall& spread = batch.spread[index];
    for (uint8_t place = 0; place < call.subjects_count; ++place) {
      const api::ShardId shard = spread.shards[place];
      if (!lowest.is_candidate(shard)) continue;
      if (has_share(batch.pass, call, spread, shard)) lowest.consider(shard);
    }
  }
}

// The next stop, from this one on, that has a share in the pass; end: there is none.
uint32_t next_in_pass(const QuotaBatch& batch, uint32_t from, const Stops& stops) noexcept {
  LowestShard lowest(from, stops.end());
  switch (batch.pass) {
    case Pass::decide:
      for (const QuotaCall& call : batch.calls) lowest.consider(call.shard);
      break;
    case Pass::end:
      for (const api::PartEnd& end : batch.part_ends) {
        if (!end.is_sent) lowest.consider(end.shard);
      }
      break;
    case Pass::extend:
      for (size_t index = 0; index < batch.calls.size(); ++index) {
        if (awaits_home(batch, index)) lowest.consider(batch.calls[index].shard);
      }
      break;
    case Pass::complete:
      return from < stops.shards_count ? from : stops.end();
    case Pass::conclude:
      for (const uint32_t call : batch.round()) lowest.consider(batch.spread[call].home());
      break;
    case Pass::await:
      lowest.consider(batch.spread[batch.undecided.front()].awaits_at);
      break;
    case Pass::look:
    case Pass::ask:
    case Pass::apply:
    case Pass::open:
    case Pass::forget:
      consider_shares(batch, lowest);
      break;
  }
  return lowest.get();
}

// False: every call is decided. The first that is left goes to the shard where it awaits a verdict;
// if it awaits none, it was behind calls of its own batch, which have theirs.
bool begin_next_round(QuotaBatch& batch) {
  end_round(batch);
  if (batch.undecided.empty()) {
    merge_reports(batch);
    return false;
  }
  if (batch.spread[batch.undecided.front()].awaits_others) {
    batch.pass = Pass::await;
  } else {
    begin_round(batch);
  }
  return true;
}

// False: there is none, the batch is decided.
bool begin_next_pass(QuotaBatch& batch) {
  switch (batch.pass) {
    case Pass::decide:
      batch.pass = batch.part_ends.empty() ? Pass::complete : Pass::end;
      return !batch.part_ends.empty() || are_incomplete(batch);
    case Pass::look:
      batch.pass = Pass::ask;
      return true;
    case Pass::ask:  // the last shard had nothing to be asked any more
      batch.pass = Pass::conclude;
      return true;
    case Pass::apply:
      batch.pass = Pass::open;
      return true;
    case Pass::open:
      return begin_next_round(batch);
    case Pass::await:
      begin_round(batch);
      return true;
    case Pass::complete:
      pack_holders(batch);
      return false;
    case Pass::end:
      batch.pass = Pass::extend;
      return true;
    case Pass::conclude:
    case Pass::extend:
    case Pass::forget:
      return false;
  }
  return false;
}

}  // namespace

uint32_t next_stop(QuotaBatch& batch, uint32_t from, const Stops& stops) noexcept {
  uint32_t stop = next_in_pass(batch, from, stops);
  while (stop >= stops.end()) {
    if (!begin_next_pass(batch)) return stops.end();
    stop = next_in_pass(batch, 0, stops);
  }
  // Another node concludes nothing: only the home does.
  if (batch.pass == Pass::ask) {
    batch.is_last_asked =
        !api::is_node_stop(stop) && next_in_pass(batch, stop + 1, stops) >= stops.end();
  }
  return stop;
}

uint32_t next_stop_of_visit(const QuotaBatch& batch, uint32_t from,
                            uint32_t shards_count) noexcept {
  return next_in_pass(batch, from, {.shards_count = shards_count});
}

bool has_share(const QuotaBatch& batch, size_t index, api::ShardId stop) noexcept {
  const QuotaCall& call = batch.calls[index];
  const SpreadCall& spread = batch.spread[index];
  return first_place(call, spread, stop) < call.subjects_count &&
         has_share(batch.pass, call, spread, stop);
}

bool awaits_home(const QuotaBatch& batch, size_t index) noexcept {
  return batch.calls[index].op == QuotaOp::extend && batch.answers[index].code == QuotaCode::ok &&
         std::any_of(batch.part_ends.begin(), batch.part_ends.end(),
                     [&](const api::PartEnd& end) { return end.call == index; });
}

// The shard that concludes a round begins to apply the verdicts, too. A node gets as many ends of
// parts at a time as a frame may have.
uint32_t after_stop(QuotaBatch& batch, uint32_t stop) noexcept {
  if (std::exchange(batch.concluded, false)) return 0;
  return batch.pass == Pass::end && api::is_node_stop(stop) ? stop : stop + 1;
}

void begin_rounds(QuotaBatch& batch) noexcept {
  for (uint32_t index = 0; index < batch.calls.size(); ++index) {
    const QuotaCall& call = batch.calls[index];
    if (call.subjects_count > 0 && call.subjects_count <= limits::call_subjects_max) {
      batch.undecided.push_back(index);
      continue;
    }
    batch.spread[index].state = State::done;
    batch.answers[index] = {.code = QuotaCode::invalid_subject, .retry_after_ms = api::retry_never};
  }
  set_round_size(batch, batch.undecided.size());
  begin_round(batch);
}

bool NamesPutOff::puts_off_undecided(QuotaBatch& batch, size_t index) {
  SpreadCall& spread = batch.spread[index];
  const QuotaCall& call = batch.calls[index];
  const auto names = std::span(batch.subjects).subspan(call.first_subject, call.subjects_count);
  const auto waits = [&](std::string_view name) { return names_.contains(name); };
  if (!spread.awaits()) {
    if (std::none_of(names.begin(), names.end(), waits)) return false;
    spread.awaits_own = true;
  }
  names_.insert(names.begin(), names.end());
  return true;
}

void conclude(QuotaBatch& batch, int64_t now_ns, Statistics& statistics) noexcept {
  NamesPutOff behind;
  std::unordered_set<std::string_view> queued;
  for (const uint32_t index : batch.round()) {
    SpreadCall& spread = batch.spread[index];
    if (behind.puts_off(batch, index) || !is_undecided(spread)) continue;
    conclude_one(batch, index, now_ns);
    const QuotaCall& call = batch.calls[index];
    const auto names = std::span(batch.subjects).subspan(call.first_subject, call.subjects_count);
    if (spread.state == State::queued) {
      queued.insert(names.begin(), names.end());
    } else if (spread.state == State::admitted && call.op != QuotaOp::record &&
               std::any_of(names.begin(), names.end(),
                           [&](std::string_view name) { return queued.contains(name); })) {
      put_off(batch, index);
      behind.puts_off(batch, index);
      continue;
    }
    // The outcome of a waiter counts when it leaves.
    if (!api::asks_admission(call.op) || spread.is_try) continue;
    ++statistics.outcomes(call.op)[static_cast<size_t>(batch.answers[index].code)];
  }
  erase_reports(batch, [&](uint32_t call) { return !reports_before_verdict(batch, call); });
  batch.pass = Pass::apply;
  batch.concluded = true;
}

bool shows_limits(const QuotaBatch& batch, size_t index) noexcept {
  const SpreadCall& spread = batch.spread[index];
  if ((batch.calls[index].flags & api::quota_flag::wants_limits) == 0) return false;
  if (spread.state == State::admitted) return true;
  if (spread.state != State::refused || spread.problem != QuotaCode::ok) return false;
  return spread.is_repeat ? api::admits(batch.answers[index].code) : is_in_queues_way(spread);
}

}  // namespace sluice::quota
