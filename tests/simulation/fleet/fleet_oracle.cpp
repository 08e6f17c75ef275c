#include "fleet_oracle.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "base/time.hpp"
#include "peer/failure_policy.hpp"
#include "peer/peers.hpp"
#include "proto/node_hash.hpp"

namespace sluice::simulation {
namespace {

using api::Verdict;
using base::PeerFailure;

// What the steps of a run may add to every time: workers that are held, clients that look late.
constexpr int64_t slack_ns = 60 * base::ns_per_ms;
constexpr int64_t leave_ns_max = 100 * base::ns_per_ms;
// Until a node has seen that a client has left; what reaches it before is written to the client.
constexpr int64_t leave_seen_ns_max = 20 * base::ns_per_ms;

std::string text_of(const api::Detail* detail) {
  if (detail == nullptr) return " (without details)";
  return " (limit " + std::to_string(detail->limit) + ", remaining " +
         std::to_string(detail->remaining) + ", retry after " +
         std::to_string(detail->retry_after_ms) + " ms)";
}

std::string text_of(Verdict verdict) {
  return std::string(api::verdict_name(verdict));
}

}  // namespace

FleetOracle::FleetOracle(const DrawnFleet& fleet, const Disturbances& disturbances,
                         io::SimNetwork& network, Failure& failure)
    : fleet_(fleet),
      disturbances_(disturbances),
      network_(network),
      failure_(failure),
      traces_(std::getenv("TRACE") != nullptr),
      served_ns_(fleet.nodes) {}

void FleetOracle::trace(const std::string& text) const {
  if (!traces_) return;
  std::fprintf(stderr, "%10.3f ms  %s\n", static_cast<double>(now_ns()) / 1e6, text.c_str());
}

std::string FleetOracle::name_of(const Call& call) {
  const char* const op = call.op == api::Op::acquire ? ""
                         : call.op == api::Op::look  ? "look "
                                                     : "release ";
  return "entry " + std::to_string(call.asked_id) + " (" + op + call.key + ") from node " +
         std::to_string(call.entry_node);
}

void FleetOracle::fail(const std::string& text) {
  trace("FAILS: " + text);
  failure_.report(text);
}

uint32_t FleetOracle::owner_of(uint32_t entry_node, std::string_view key) const {
  return fleet_.lists[entry_node][proto::key_node(key, static_cast<uint16_t>(fleet_.nodes))];
}

// ------------------------------------------------------------------------------------ clients

Call& FleetOracle::ask(Call asked) {
  asked.id = asked.asked_id = next_id_++;
  if (asked.first_of_frame == 0) asked.first_of_frame = asked.id;
  if (asked.key.ends_with('-')) asked.key += std::to_string(asked.id);
  asked.asked_ns = now_ns();
  asked.asked_served_ns = served_ns_[asked.entry_node];
  Call& call = calls_[asked.id] = std::move(asked);
  open_[call.id] = &call;
  trace(name_of(call) + " is asked on connection " + std::to_string(call.connection) +
        (call.may_wait ? ", may wait" : ""));
  return call;
}

bool FleetOracle::is_decided(const Call& call, const Answer& answer) const {
  if (!call.decision || answer.is_degraded) return false;
  const CallDecision& decision = *call.decision;
  const bool is_late = answer.is_outcome;
  const Verdict expected = is_late ? decision.outcome.value_or(Verdict::none) : decision.verdict;
  if (answer.verdict != expected) return false;
  if (answer.detail == nullptr || is_late) return true;
  return answer.detail->limit == decision.detail.limit &&
         answer.detail->remaining == decision.detail.remaining &&
         answer.detail->retry_after_ms == decision.detail.retry_after_ms;
}

bool FleetOracle::is_policy(const Call& call, const Answer& answer) const {
  if (answer.is_done) return call.is_anonymous();  // who decides those is not seen
  if (answer.may_have_waited && answer.verdict == Verdict::owner_unreachable) return true;
  // Over REST nobody sees whether the entry node knew that it waited.
  const bool was_queued = call.is_queued || (answer.is_outcome && !answer.may_have_waited);
  if (was_queued || fleet_.on_failure == PeerFailure::error ||
      fleet_.on_failure == PeerFailure::local) {
    return answer.verdict == Verdict::owner_unreachable;
  }
  const peer::FailurePolicy policy(fleet_.on_failure);
  if (answer.verdict != policy.verdict(call.op)) return false;
  const bool is_open = fleet_.on_failure == PeerFailure::open && call.op == api::Op::acquire;
  if (answer.shows_degraded && answer.is_degraded != is_open) return false;
  if (answer.detail == nullptr) return true;
  return answer.detail->limit == 0 &&
         answer.detail->retry_after_ms == policy.detail(call.op).retry_after_ms;
}

void FleetOracle::queued(Call& call, const Answer& answer) {
  if (!is_decided(call, answer)) {
    return fail(name_of(call) + " is queued, which nobody has decided");
  }
  call.is_queued = true;
  trace(name_of(call) + " knows that it waits");
}

void FleetOracle::answered(Call& call, const Answer& answer) {
  trace(name_of(call) + " is answered " + text_of(answer.verdict));
  if (call.answer) return fail(name_of(call) + " is answered twice");
  call.answer = answer.verdict;
  open_.erase(call.id);
  if (is_decided(call, answer)) {
    call.may_be_policy = is_policy(call, answer);
    return deliver(call);
  }
  if (call.is_anonymous() && answer.verdict == Verdict::approved) return;
  check_policy(call, answer);
}

void FleetOracle::deliver(Call& call) {
  if (call.answer != Verdict::approved || !call.decision->window) return;
  WindowBook& book = windows_[*call.decision->window];
  book.delivered += call.cost;
  if (book.delivered > fleet_.limit + book.released) {
    fail(name_of(call) + " is above the limit: clients have received " +
         std::to_string(book.delivered) + " of " + std::to_string(fleet_.limit) + ", " +
         std::to_string(book.released) + " released");
  }
}

void FleetOracle::check_policy(Call& call, const Answer& answer) {
  call.by_policy = true;
  call.gone_ns = now_ns();
  note_gone(call);
  const uint32_t owner = owner_of(call.entry_node, call.key);
  const std::string decided = call.decision
                                  ? "decided as " + text_of(call.decision->verdict) +
                                        text_of(&call.decision->detail) + " then " +
                                        text_of(call.decision->outcome.value_or(Verdict::none))
                                  : "not decided";
  if (owner == call.entry_node || !is_policy(call, answer)) {
    return fail(name_of(call) + " is answered " + text_of(answer.verdict) + text_of(answer.detail) +
                " and was " + decided);
  }
  count(call.is_queued ? FleetEvent::waiter_lost : FleetEvent::answered_by_policy);
  if (!disturbances_.may_fail(call.entry_node, owner, call.asked_ns, now_ns())) {
    fail(name_of(call) + " is answered by the policy without a cause: " + text_of(answer.verdict) +
         ", " + decided);
  }
}

void FleetOracle::left(Call& call) {
  if (call.is_over()) return;
  trace(name_of(call) + " has left");
  call.has_left = true;
  call.gone_ns = now_ns();
  open_.erase(call.id);
  note_gone(call);
}

void FleetOracle::withdrawn(Call& call) {
  if (call.gone_ns >= 0) return;
  trace(name_of(call) + " is withdrawn");
  call.gone_ns = now_ns();
  note_gone(call);
}

// It must leave the queue in which it waits, or into which it comes later.
void FleetOracle::note_gone(Call& call) {
  call.gone_served_ns = served_ns_[call.entry_node];
  if (call.may_wait) leaving_[call.id] = &call;
}

// ----------------------------------------------------------------------------------- deciders

std::optional<CallId> FleetOracle::id_of(const api::Entry& entry) {
  const uint32_t mark = entry.overrides().max_requests_in_queue;
  if (mark != api::keep && mark > call_mark) return mark - call_mark;
  const std::string_view key = entry.key();
  const size_t at = key.rfind('-');
  if (at == std::string_view::npos) return {};
  CallId id = 0;
  std::from_chars(key.data() + at + 1, key.data() + key.size(), id);
  return id;
}

void FleetOracle::on_decided(const DecidingShard& at, const Decided& decided) {
  const api::Entry& entry = decided.entry;
  const std::string key(entry.key());
  if (entry.op == api::Op::refund) {
    trace("node " + std::to_string(at.node) + " refunds " + std::to_string(entry.cost) + " of " +
          key);
    keys_[key].refunded += entry.cost;
    return count(FleetEvent::late_refund);
  }
  if (entry.op == api::Op::release && decided.state) {
    const int64_t end_ms = base::floor_ms(decided.now.monotonic_ns) + decided.state->reset_ms;
    // Of more than there were: the call itself may have begun a window, or ended the wait of the
    // first in the queue, and granted permits to others before it released theirs, too.
    const uint32_t released = decided.approved_before >= entry.cost
                                  ? entry.cost
                                  : std::min<uint32_t>(entry.cost, fleet_.limit);
    windows_[window_of({at.node, at.start, key, end_ms})].released += released;
    trace("node " + std::to_string(at.node) + " releases " + std::to_string(released) + " of " +
          std::to_string(entry.cost) + " of " + key + " in the window that ends at " +
          std::to_string(end_ms) + " ms");
  }
  const auto id = id_of(entry);
  if (!id) return;
  const auto found = calls_.find(*id);
  // A refund that comes much too late is a look.
  const bool is_look = entry.op == api::Op::look;
  if (is_look && found != calls_.end() && found->second.op != api::Op::look) return;
  if (found == calls_.end() || found->second.key != key || found->second.op != entry.op) {
    return fail("node " + std::to_string(at.node) + " decides an entry of " + key +
                " that nobody has asked for");
  }
  on_call(at, record_of(at, found->second), decided);
}

// Whether the entry node decides in the owner's place.
bool FleetOracle::is_stand_in(uint32_t node, const Call& call) const {
  return fleet_.on_failure == PeerFailure::local && node == call.entry_node &&
         node != owner_of(call.entry_node, call.key);
}

// Where a decision belongs: the entry node stands in for what an owner has decided and not
// answered, or decides later.
Call& FleetOracle::record_of(const DecidingShard& at, Call& call) {
  if (!call.decision || call.decision->node == at.node) return call;
  if (is_stand_in(call.decision->node, call)) return lost_record_of(call);
  if (!is_stand_in(at.node, call)) return call;
  Call& lost = lost_record_of(call);
  lost.decision = std::exchange(call.decision, {});
  for (auto& [name, id] : waiting_) {
    if (id == call.id) id = lost.id;
  }
  return call;
}

Call& FleetOracle::lost_record_of(Call& call) {
  if (call.lost_id != 0) return calls_.at(call.lost_id);
  call.lost_id = next_lost_id_++;
  Call& lost = calls_[call.lost_id] = call;
  lost.id = call.lost_id;
  lost.decision.reset();
  lost.by_policy = true;
  lost.gone_ns = now_ns();
  note_gone(lost);
  return lost;
}

void FleetOracle::on_call(const DecidingShard& at, Call& call, const Decided& decided) {
  trace(name_of(call) + " is decided by node " + std::to_string(at.node) + " shard " +
        std::to_string(at.shard) + ": " + text_of(decided.verdict));
  if (call.decision) {
    return fail(name_of(call) + " is decided twice, by nodes " +
                std::to_string(call.decision->node) + " and " + std::to_string(at.node));
  }
  check_place(at, call);
  call.decision = CallDecision{.node = at.node,
                               .start = at.start,
                               .verdict = decided.verdict,
                               .detail = decided.detail,
                               .at_ns = now_ns(),
                               .known_served_ns = served_ns_[call.entry_node]};
  if (decided.verdict == Verdict::queued) {
    waiting_[{at.node, at.shard, decided.origin, decided.entry.ticket}] = call.id;
    if (at.node != call.entry_node) count(FleetEvent::queued_by_owner);
  }
  if (call.op != api::Op::acquire || decided.verdict != Verdict::approved) return;
  if (call.by_policy) count(FleetEvent::late_approval);
  const int64_t end_ms = base::floor_ms(decided.now.monotonic_ns) + decided.state->reset_ms;
  approve(call, end_ms);
}

// A key's first window ends a millisecond later than is reported at its begin.
CallWindow FleetOracle::window_of(const CallWindow& reported) const {
  CallWindow earliest = reported;
  --earliest.end_ms;
  const auto known = windows_.lower_bound(earliest);
  const bool is_same = known != windows_.end() && known->first.node == reported.node &&
                       known->first.start == reported.start && known->first.key == reported.key &&
                       known->first.end_ms <= reported.end_ms + 1;
  return is_same ? known->first : reported;
}

void FleetOracle::approve(Call& call, int64_t window_end_ms) {
  CallDecision& decision = *call.decision;
  decision.window = window_of(
      {.node = decision.node, .start = decision.start, .key = call.key, .end_ms = window_end_ms});
  windows_[*decision.window].approved += call.cost;
  trace(name_of(call) + " is in the window that ends at " + std::to_string(window_end_ms) + " ms");
}

// The owner of its key, or in its place the entry node; each connection's entries in their order.
void FleetOracle::check_place(const DecidingShard& at, const Call& call) {
  const uint32_t owner = owner_of(call.entry_node, call.key);
  const bool is_here = at.node == call.entry_node;
  if (at.node != owner && !(is_here && fleet_.on_failure == PeerFailure::local)) {
    return fail(name_of(call) + " is decided by node " + std::to_string(at.node) + " and not " +
                std::to_string(owner));
  }
  if (at.node != owner) {
    count(FleetEvent::stood_in);
  } else {
    count(is_here ? FleetEvent::decided_at_entry : FleetEvent::decided_by_owner);
  }
  if (at.node != owner) return;  // some have been sent to the owner before
  CallId& last = last_decided_[{at.node, at.start, call.connection, call.key}];
  if (last > call.asked_id) {
    fail(name_of(call) + " is decided before one that was asked earlier");
  }
  last = call.asked_id;
}

void FleetOracle::on_grant(const DecidingShard& at, const api::Grant& grant) {
  const auto waiting = waiting_.find({at.node, at.shard, grant.origin, grant.ticket});
  if (waiting == waiting_.end())
    return fail("a grant for nobody at node " + std::to_string(at.node));
  Call& call = calls_.at(waiting->second);
  waiting_.erase(waiting);
  trace(name_of(call) + " gets its outcome from node " + std::to_string(at.node) + ": " +
        text_of(grant.verdict));
  call.decision->outcome = grant.verdict;
  call.decision->known_served_ns = served_ns_[call.entry_node];
  call.decision->came_too_late =
      call.gone_ns >= 0 && call.gone_served_ns + leave_seen_ns_max < served_ns_[call.entry_node] &&
      undisturbed_ns(call) + leave_seen_ns_max < now_ns();
  if (call.gone_ns >= 0 && at.node != call.entry_node) count(FleetEvent::left_owner);
  if (grant.verdict != Verdict::approved) return;
  if (at.node != call.entry_node) count(FleetEvent::granted_by_owner);
  claims_[{grant.refund_claim.key_tag, grant.refund_claim.key_position}] = call.key;
  approve(call, grant.refund_claim.window_end_ms);
}

void FleetOracle::on_left_queue(const DecidingShard& at, api::ShardId origin, api::Ticket ticket) {
  const auto waiting = waiting_.find({at.node, at.shard, origin, ticket});
  if (waiting == waiting_.end()) return fail("nobody leaves a queue");
  Call& call = calls_.at(waiting->second);
  waiting_.erase(waiting);
  trace(name_of(call) + " leaves the queue of node " + std::to_string(at.node));
  call.decision->outcome = Verdict::withdrawn;
  call.decision->known_served_ns = served_ns_[call.entry_node];
  if (at.node != call.entry_node) count(FleetEvent::left_owner);
}

void FleetOracle::on_refund(const DecidingShard& at, const api::RefundClaim& claim) {
  const auto key = claims_.find({claim.key_tag, claim.key_position});
  if (key == claims_.end()) return fail("a refund of what was never granted");
  trace("node " + std::to_string(at.node) + " refunds a grant of " + key->second);
  keys_[key->second].refunded += claim.cost;
  count(FleetEvent::grant_crossed);
}

void FleetOracle::on_crash(uint32_t node) {
  // What other nodes send it from now on reaches nobody who could return it.
  for (uint32_t other = 0; other < fleet_.nodes; ++other) note_lane_lost(node, other);
  std::erase_if(waiting_, [&](const auto& waiting) {
    if (std::get<0>(waiting.first) != node) return false;
    Call& call = calls_.at(waiting.second);
    call.decision->outcome = Verdict::owner_unreachable;
    call.decision->known_served_ns = served_ns_[call.entry_node];
    return true;
  });
}

// ------------------------------------------------------------------------------------ the run

void FleetOracle::note_lane_lost(uint32_t entry_node, uint32_t owner) {
  lost_[{entry_node, owner}].push_back({.at_ns = now_ns(), .served_ns = served_ns_[entry_node]});
}

void FleetOracle::note_healed(uint32_t from, uint32_t to, int64_t since_ns) {
  const bool was_noticed = was_lost(from, to, &LaneLoss::at_ns, since_ns, now_ns()) ||
                           was_lost(to, from, &LaneLoss::at_ns, since_ns, now_ns());
  if (!was_noticed) count(FleetEvent::survived);
}

bool FleetOracle::was_lost(uint32_t entry_node, uint32_t owner, int64_t LaneLoss::*clock,
                           int64_t from_ns, int64_t until_ns) const {
  const auto lost = lost_.find({entry_node, owner});
  if (lost == lost_.end()) return false;
  return std::ranges::any_of(lost->second, [&](const LaneLoss& loss) {
    return from_ns <= loss.*clock && loss.*clock <= until_ns;
  });
}

void FleetOracle::begin_silence(uint32_t owner, uint32_t node) {
  Silence& silence = silences_[{owner, node}];
  if (silence.causes++ == 0) silence.since_served_ns = served_ns_[node];
}

void FleetOracle::end_silence(uint32_t owner, uint32_t node) {
  Silence& silence = silences_[{owner, node}];
  --silence.causes;
  // What was on its way arrives now.
  silence.since_served_ns = served_ns_[node];
}

void FleetOracle::check() {
  for (const auto& [id, call] : open_) {
    check_answer_time(*call);
    check_silence(*call);
  }
  std::erase_if(leaving_, [this](const auto& leaving) { return has_left_queue(*leaving.second); });
}

// A node that runs answers in time, whatever the owner does.
void FleetOracle::check_answer_time(const Call& call) {
  int64_t limit_ms = fleet_.timeout_ms + peer::Peers::tick_ms;
  if (may_be_held(call)) limit_ms += fleet_.timeout_ms;
  const bool waits = call.decision && call.decision->verdict == Verdict::queued;
  if (waits) {
    if (call.wait_limit_ms == 0) return;
    limit_ms = call.wait_limit_ms + fleet_.timeout_ms + idle_ping_ms + fleet_.silence_ms +
               2 * peer::Peers::tick_ms;
  }
  const int64_t age_ns = served_ns_[call.entry_node] - call.asked_served_ns;
  if (age_ns <= limit_ms * base::ns_per_ms + slack_ns + 2 * fleet_.delay_ns_max) return;
  fail(name_of(call) + " has no " + (waits ? "outcome" : "answer") + " after " +
       std::to_string(age_ns / base::ns_per_ms) + " ms, " +
       (call.decision ? "decided" : "not decided"));
}

// Where lanes are new, an entry of its frame may be held until those before it have left their old
// ways.
bool FleetOracle::may_be_held(const Call& call) const {
  for (auto at = calls_.find(call.first_of_frame);
       at != calls_.end() && at->second.first_of_frame == call.first_of_frame; ++at) {
    const uint32_t owner = owner_of(call.entry_node, at->second.key);
    const int64_t since_ns = call.asked_ns - disturbances_.recovery_ns();
    if (was_lost(call.entry_node, owner, &LaneLoss::at_ns, since_ns, call.asked_ns)) return true;
  }
  return false;
}

// An owner that is silent is lost in time, and what it was asked for is answered then.
void FleetOracle::check_silence(const Call& call) {
  if (!is_owner_silent(call)) return;
  const std::optional<int64_t> from_ns = call.is_queued ? due_since_ns(call) : frame_due_ns(call);
  if (!from_ns) return;
  const int64_t age_ns = served_ns_[call.entry_node] - *from_ns;
  const int64_t limit_ms = fleet_.silence_ms + peer::Peers::tick_ms;
  if (age_ns <= limit_ms * base::ns_per_ms + slack_ns + fleet_.delay_ns_max) return;
  fail(name_of(call) + " has no answer, and its owner is silent for " +
       std::to_string(age_ns / base::ns_per_ms) + " ms");
}

bool FleetOracle::is_owner_silent(const Call& call) const {
  const uint32_t owner = owner_of(call.entry_node, call.key);
  const auto silence = silences_.find({owner, call.entry_node});
  const bool stands_in = call.decision && call.decision->node == call.entry_node;
  return silence != silences_.end() && silence->second.causes > 0 && owner != call.entry_node &&
         !stands_in;
}

// Since when the owner's answer arrives in time, or its silence is noticed. Nothing: the owner may
// be unreachable without being silent.
std::optional<int64_t> FleetOracle::due_since_ns(const Call& call) const {
  if (!call.decision && !is_owner_silent(call)) return std::nullopt;
  int64_t since_ns = call.asked_served_ns;
  if (call.decision) since_ns = std::max(since_ns, call.decision->known_served_ns);
  const auto silence = silences_.find({owner_of(call.entry_node, call.key), call.entry_node});
  if (silence == silences_.end()) return since_ns;
  return std::max(since_ns, silence->second.since_served_ns);
}

// A frame is answered as a whole: the owners of its other entries are awaited, too.
std::optional<int64_t> FleetOracle::frame_due_ns(const Call& call) const {
  int64_t since_ns = 0;
  for (auto at = calls_.find(call.first_of_frame);
       at != calls_.end() && at->second.first_of_frame == call.first_of_frame; ++at) {
    const std::optional<int64_t> due_ns = due_since_ns(at->second);
    if (!due_ns) return std::nullopt;
    since_ns = std::max(since_ns, *due_ns);
  }
  return since_ns;
}

// Since when nothing keeps the entry node from withdrawing it. It waits for the answers of other
// nodes to what the connection has asked before its client has left.
int64_t FleetOracle::undisturbed_ns(const Call& call) const {
  const int64_t now = now_ns();
  int64_t since_ns = INT64_MIN;
  for (uint32_t owner = 0; owner < fleet_.nodes; ++owner) {
    const int64_t quiet_ns = std::max(disturbances_.quiet_since_ns(call.entry_node, owner, now),
                                      disturbances_.quiet_since_ns(owner, owner, now));
    const bool may_fail = disturbances_.may_fail(call.entry_node, owner, call.asked_ns, now);
    since_ns = std::max(since_ns, quiet_ns + (may_fail ? disturbances_.recovery_ns() : 0));
  }
  return since_ns;
}

// Whether nothing has to be watched any more.
bool FleetOracle::has_left_queue(const Call& call) {
  const int64_t now = now_ns();
  if (!call.decision) return now - call.gone_ns > forget_ns;
  const CallDecision& decision = *call.decision;
  if (decision.verdict != Verdict::queued || decision.outcome) return true;
  const int64_t from_ns = std::max({call.gone_ns, decision.at_ns, undisturbed_ns(call)});
  if (now - from_ns <= leave_ns_max + slack_ns + 3 * fleet_.delay_ns_max) return false;
  fail(name_of(call) + " still waits at node " + std::to_string(decision.node) + ", " +
       std::to_string((now - from_ns) / base::ns_per_ms) + " ms after its client has left");
  return true;
}

void FleetOracle::end() {
  if (!open_.empty()) fail(name_of(*open_.begin()->second) + " has no answer at the end");
  if (!waiting_.empty()) fail(name_of(calls_.at(waiting_.begin()->second)) + " waits at the end");
  for (const auto& [id, call] : calls_) add_to_books(call);
  for (const auto& [key, book] : keys_) {
    if (book.refunded > book.undelivered) {
      fail("of " + key + " " + std::to_string(book.refunded) + " are refunded, and only " +
           std::to_string(book.undelivered) + " reached nobody");
    }
    if (book.refunded < book.owed) {
      fail("of " + key + " " + std::to_string(book.refunded) + " are refunded, and " +
           std::to_string(book.owed) + " must be");
    }
  }
}

void FleetOracle::add_to_books(const Call& call) {
  if (!call.decision || !call.decision->window) return;
  const CallDecision& decision = *call.decision;
  if (call.answer == Verdict::approved && !call.by_policy && !call.may_be_policy) return;
  KeyBook& book = keys_[call.key];
  book.undelivered += call.cost;
  // Of a waiter, if its client had left before; else the owner's answer must have come too late.
  const bool came_too_late = decision.outcome ? decision.came_too_late : call.by_policy;
  const bool is_of_other_node = decision.node != call.entry_node;
  // An entry node that pauses refunds nothing meanwhile.
  const bool was_lost_between =
      was_lost(call.entry_node, decision.node, &LaneLoss::served_ns, call.asked_served_ns,
               decision.known_served_ns + refund_ns_max);
  if (!came_too_late || !is_of_other_node || was_lost_between) return;
  book.owed += call.cost;
  trace(name_of(call) + " must be refunded");
}

}  // namespace sluice::simulation
