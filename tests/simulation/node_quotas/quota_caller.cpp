#include "quota_caller.hpp"

#include <algorithm>
#include <utility>

#include "base/time.hpp"

namespace sluice::simulation {

using api::QuotaCode;
using api::QuotaOp;
using Event = NodeQuotaEvent;

namespace {

constexpr double wait_share = 0.3;
constexpr uint32_t wait_ms = 3'000;
// Its last try, and another node that is silent.
constexpr int64_t wait_slack_ns = 4 * base::ns_per_s;
constexpr double patient_share = 0.7;
constexpr double bound_share = 0.2;
constexpr double rest_share = 0.3;
constexpr double id_share = 0.7;
constexpr double several_share = 0.4;
constexpr uint64_t several_max = 3;
constexpr double calls_share = 0.3;  // of frames with several calls
constexpr uint64_t calls_max = 4;
// Each may have to wait for a silent node before the next one is read.
constexpr size_t asked_max = 3;
constexpr double short_share = 0.5;  // of lifetimes, the others are the longest
constexpr uint64_t tokens_drawn = 20;
constexpr double vague_share = 0.05;
constexpr int64_t rest_ns_max = 500 * base::ns_per_ms;
constexpr int64_t soon_ns = 5 * base::ns_per_s;
constexpr int64_t probe_ns_max = 2 * soon_ns;

ReserveEntry entry_of(const KnownCall& call) {
  return {
      .subjects = call.subjects, .amounts = {.input_tokens = call.tokens}, .client_id = call.id};
}

}  // namespace

QuotaCaller::QuotaCaller(QuotaWorld& world, QuotaNode& node)
    : world_(world),
      node_(node),
      talk_(make_talk(node)),
      is_patient_(world.random.chance(patient_share)),
      last_ns_(world.oracle.now_ns()) {}

std::unique_ptr<QuotaTalk> QuotaCaller::make_talk(QuotaNode& node) {
  if (!world_.random.chance(rest_share)) {
    return std::make_unique<NativeQuotaTalk>(node.connect(server::native_listener), *this);
  }
  return std::make_unique<RestQuotaTalk>(node.connect(server::http_listener), *this);
}

QuotaCaller::Asked& QuotaCaller::ask(const QuotaQuestion& question) {
  Asked& asked = asked_[talk_->ask(question)];
  asked.op = question.op;
  asked.is_bound = question.is_bound;
  asked.may_wait = question.wait_limit_ms > 0;
  asked.asked_ns = world_.oracle.now_ns();
  asked.awake_ns = awake_ns_;
  return asked;
}

void QuotaCaller::act() {
  const bool has_many = asked_.size() >= (talk_->takes_several() ? asked_max : 1);
  if (is_over_ || has_many || world_.oracle.now_ns() < rests_until_ns_) return;
  if (!is_patient_ || !is_waiting()) return act_at_random();
  if (world_.random.below(100) < 10) end_one();
}

void QuotaCaller::act_at_random() {
  if (probe()) return;
  if (world_.oracle.is_disturbed() && world_.random.chance(0.3)) {
    return world_.random.chance(0.6) ? extend_one() : end_one();
  }
  // So that verdicts get lost on calls that are repeated later.
  if (world_.is_calm_over && world_.random.chance(0.5)) return consume();
  const uint64_t dice = world_.random.below(100);
  if (dice < 32) return reserve();
  if (dice < 45) return consume();
  if (dice < 53) return world_.to_repeat.empty() ? consume() : repeat();
  if (dice < 56) return record();
  if (dice < 59) return check();
  if (dice < 78) return extend_one();
  if (dice < 99 && !world_.to_end.empty()) return end_again();
  if (dice < 99) return end_one();
  if (asked_.empty() || (world_.loses_answers && world_.random.chance(0.1))) leave();
}

bool QuotaCaller::is_waiting() const {
  return std::ranges::any_of(asked_, [](const auto& each) { return each.second.may_wait; });
}

// Different ones, in any order.
Subjects QuotaCaller::draw_subjects() {
  const bool is_one = !world_.random.chance(several_share);
  const uint64_t count = is_one ? 1 : 2 + world_.random.below(several_max - 1);
  Subjects drawn;
  while (drawn.size() < count) {
    const size_t first = world_.subjects.size() - QuotaWorld::drawn_subjects;
    const std::string& subject =
        world_.subjects[first + world_.random.below(QuotaWorld::drawn_subjects)];
    if (std::ranges::find(drawn, subject) == drawn.end()) drawn.push_back(subject);
  }
  if (world_.oracle.is_spread(drawn)) world_.counts.note(Event::spread);
  return drawn;
}

uint64_t QuotaCaller::draw_tokens() {
  return world_.random.chance(0.4) ? 0 : 1 + world_.random.below(tokens_drawn);
}

// What another node may have charged for a call that has no answer cannot be known, unless the call
// is repeated under its id: that would hide what is charged wrongly.
KnownCall QuotaCaller::draw_call(QuotaOp op) {
  KnownCall call;
  call.op = op;
  call.subjects = draw_subjects();
  call.tokens = draw_tokens();
  const bool is_vague = !is_at_home(call) && !world_.random.chance(vague_share);
  if (op == QuotaOp::reserve) {
    if (is_vague) call.tokens = 0;
  } else if (op != QuotaOp::check &&
             (is_vague || !world_.loses_answers || world_.random.chance(id_share))) {
    call.id = "id" + std::to_string(++world_.ids);
  }
  return call;
}

void QuotaCaller::reserve() {
  const bool has_several = talk_->takes_several() && world_.random.chance(calls_share);
  const uint64_t calls_count = has_several ? 2 + world_.random.below(calls_max - 1) : 1;
  const bool is_short = world_.random.chance(short_share);
  QuotaQuestion question{.op = QuotaOp::reserve};
  question.is_bound = talk_->takes_several() && world_.random.chance(bound_share);
  question.wait_limit_ms = !has_several && world_.random.chance(wait_share) ? wait_ms : 0;
  if (is_short) question.lifetime_ms = 500 + static_cast<uint32_t>(world_.random.below(4'000));
  std::vector<CallPtr> calls;
  while (calls.size() < calls_count) {
    KnownCall call = draw_call(QuotaOp::reserve);
    call.is_bound = question.is_bound;
    call.lifetime_ms = is_short ? question.lifetime_ms : default_lifetime_ms;
    question.calls.push_back(entry_of(call));
    if (world_.random.chance(0.5)) question.calls.back().amounts.output_tokens = UINT64_MAX;
    calls.push_back(world_.oracle.ask(std::move(call)));
  }
  ask(question).calls = std::move(calls);
}

void QuotaCaller::check() {
  KnownCall call = draw_call(QuotaOp::check);
  const QuotaQuestion question{.op = QuotaOp::check, .calls = {entry_of(call)}};
  ask(question).checked = world_.oracle.for_check(std::move(call));
}

void QuotaCaller::consume() {
  KnownCall call = draw_call(QuotaOp::consume);
  ask_charge(world_.oracle.ask(std::move(call)));
}

// Little, where it shall not be in the way of all later calls.
void QuotaCaller::record() {
  KnownCall call = draw_call(QuotaOp::record);
  const bool has_room = std::ranges::all_of(call.subjects, [&](const std::string& subject) {
    return world_.oracle.most_charged(subject) + call.tokens <= world_.oracle.tokens_max();
  });
  if (has_room || world_.overdraws) ask_charge(world_.oracle.ask(std::move(call)));
}

void QuotaCaller::ask_charge(const CallPtr& call) {
  const QuotaQuestion question{.op = call->op, .calls = {entry_of(*call)}};
  ask(question).calls = {call};
}

void QuotaCaller::ask_for_certainty() {
  if (is_over_ || probe()) return;
  if (!world_.to_end.empty()) return end_again();
  world_.ends_all && !world_.open.empty() ? end_one() : repeat();
}

void QuotaCaller::repeat() {
  if (world_.to_repeat.empty()) return;
  const auto at = world_.to_repeat.begin() +
                  static_cast<ptrdiff_t>(world_.random.below(world_.to_repeat.size()));
  const CallPtr call = *at;
  world_.to_repeat.erase(at);
  world_.counts.note(Event::repeated);
  world_.oracle.ask_again(*call);
  ask_charge(call);
}

// Of any client, made at any node. Null: none.
CallPtr QuotaCaller::take_open() {
  if (world_.open.empty()) return nullptr;
  const bool is_disturbed = world_.oracle.is_disturbed();
  const auto fits = [&](const CallPtr& call) {
    if (!world_.hoards || world_.ends_all) return true;
    return (world_.oracle.is_spread(call->subjects) && call->tokens > 0) == is_disturbed;
  };
  auto at = world_.open.begin() + static_cast<ptrdiff_t>(world_.random.below(world_.open.size()));
  if (!fits(*at)) at = std::find_if(world_.open.begin(), world_.open.end(), fits);
  if (at == world_.open.end()) return nullptr;
  const CallPtr call = *at;
  world_.open.erase(at);
  return call;
}

void QuotaCaller::end_one() {
  const CallPtr call = take_open();
  if (call == nullptr) return;
  const bool is_late = call->open_until_ns() < world_.oracle.now_ns() + base::ns_per_s;
  if (is_late && !world_.loses_answers) return;  // whether it is over would not be known
  call->end_op = QuotaOp::cancel;
  if (world_.random.chance(0.6)) {
    call->end_op = QuotaOp::settle;
    const bool has_more = world_.overdraws && world_.random.chance(0.1);
    call->settled_tokens = world_.random.below(call->tokens + 1) + (has_more ? 5 : 0);
  }
  world_.oracle.ask_end(*call);
  end(call);
}

void QuotaCaller::end(const CallPtr& call) {
  ask({.op = call->end_op,
       .reservation = call->reservation,
       .settled_tokens = call->settled_tokens})
      .calls = {call};
}

// The same end, whose answer nobody knows.
void QuotaCaller::end_again() {
  const CallPtr call = world_.to_end.back();
  world_.to_end.pop_back();
  world_.counts.note(Event::ended_again);
  end(call);
}

// One that ends soon, whose home is this node, and has parts at others, if there is one: what has
// become of it can be seen later.
void QuotaCaller::extend_one() {
  if (world_.open.empty()) return;
  const auto ends_soon = [&](const CallPtr& call) {
    const int64_t left_ns = call->over_at_ns - world_.oracle.now_ns();
    return left_ns > 0 && left_ns < soon_ns && is_at_home(*call) &&
           world_.oracle.is_spread(call->subjects) && !call->is_extending;
  };
  const auto soon = std::ranges::find_if(world_.open, ends_soon);
  const CallPtr call = soon != world_.open.end() && world_.random.chance(0.7)
                           ? *soon
                           : world_.open[world_.random.below(world_.open.size())];
  const uint64_t dice = world_.random.below(4);
  const auto drawn = static_cast<uint32_t>(500 + world_.random.below(4'000));
  // A long extension that fails can be distinguished from one that holds.
  const bool is_long = world_.oracle.is_disturbed() || dice == 1;
  if (!call->is_extending) extend(call, is_long ? default_lifetime_ms : dice == 0 ? 0 : drawn);
}

void QuotaCaller::extend(const CallPtr& call, uint32_t lifetime_ms) {
  const QuotaQuestion question{
      .op = QuotaOp::extend, .lifetime_ms = lifetime_ms, .reservation = call->reservation};
  ask(question).extension = world_.oracle.ask_extension(call, lifetime_ms);
}

// Whether what could not be extended has ended at its old time.
bool QuotaCaller::probe() {
  const auto due = std::ranges::find_if(world_.to_probe, [&](const CallPtr& call) {
    return call->is_ending || call->over_at_ns == base::never_ns ||
           world_.oracle.probe_ns(*call) < world_.oracle.now_ns();
  });
  if (due == world_.to_probe.end()) return false;
  const CallPtr call = *due;
  world_.to_probe.erase(due);
  const bool is_open = call->is_ending || call->over_at_ns == base::never_ns || call->is_extending;
  if (is_open) return false;
  world_.counts.note(Event::probed);
  extend(call, default_lifetime_ms);
  return true;
}

// --- the end of the connection

void QuotaCaller::leave() {
  if (is_over_) return;
  forget_all();
  talk_->close();
}

void QuotaCaller::forget_all() {
  is_over_ = true;
  for (const CallPtr& each : bound_) world_.oracle.unbound(*each);
  for (const auto& [number, asked] : asked_) lose(asked);
}

// What was asked for and not answered may be charged or not.
void QuotaCaller::lose(const Asked& asked) {
  if (asked.extension) world_.oracle.extension_lost(*asked.extension);
  if (ends(asked.op)) world_.to_end.push_back(asked.calls.front());
  if (!charges(asked.op)) return;
  for (const CallPtr& call : asked.calls) {
    world_.oracle.lost(*call);
    if (!call->id.empty()) world_.to_repeat.push_back(call);
  }
}

// Whatever happens to other nodes, a call that waits has an answer in time.
void QuotaCaller::check_waits() {
  const int64_t now_ns = world_.oracle.now_ns();
  if (!node_.is_paused) awake_ns_ += now_ns - last_ns_;
  last_ns_ = now_ns;
  const int64_t longest_ns = int64_t{wait_ms} * base::ns_per_ms + wait_slack_ns;
  for (const auto& [number, asked] : asked_) {
    if (asked.may_wait && awake_ns_ - asked.awake_ns > longest_ns) {
      world_.oracle.fail(
          "call " + std::to_string(number) + " to node " + std::to_string(node_.number()) +
          " for " + asked.calls.front()->subjects.front() + ", asked at " +
          std::to_string(asked.asked_ns) + ", has no answer in time" +
          (talk_->takes_several() ? "" : ", over REST") + (asked.was_queued ? ": it waits" : ""));
    }
  }
}

// --- answers

void QuotaCaller::receive() {
  if (is_over_) return;
  check_waits();
  talk_->read();
  if (talk_->is_cut_off() && !is_over_) forget_all();
}

void QuotaCaller::on_queued(uint64_t question) {
  world_.counts.note(Event::queued);
  const auto found = asked_.find(question);
  if (found == asked_.end()) return world_.oracle.fail("nothing was queued");
  Asked& asked = found->second;
  asked.was_queued = true;
  const bool is_spread = world_.oracle.is_spread(asked.calls.front()->subjects);
  if (is_spread) world_.counts.note(Event::waiting_spread);
}

void QuotaCaller::on_answered(uint64_t question, const std::vector<QuotaOutcome>& outcomes) {
  const auto found = asked_.find(question);
  if (found == asked_.end()) return world_.oracle.fail("an answer to nothing");
  const Asked asked = std::move(found->second);
  asked_.erase(found);
  const QuotaCode code = outcomes.front().code;
  if (asked.was_queued) world_.counts.note(Event::granted);
  if (!talk_->takes_several()) world_.counts.note(Event::by_rest);
  if (asked.extension) return on_extended(asked, code);
  if (asked.op == QuotaOp::check) {
    world_.counts.note(Event::checked);
    if (api::admits(code)) world_.oracle.check_admitted(asked.checked);
  } else if (charges(asked.op)) {
    if (outcomes.size() != asked.calls.size()) world_.oracle.fail("not as many answers as calls");
    for (size_t at = 0; at < asked.calls.size(); ++at) {
      on_charge(asked, asked.calls[at], outcomes.at(at));
    }
  } else {
    on_ended(asked.calls.front(), code);
  }
}

void QuotaCaller::on_ended(const CallPtr& call, QuotaCode code) {
  world_.oracle.ended(*call, code);
  if (code == QuotaCode::owner_unreachable) world_.to_end.push_back(call);
  if (code != QuotaCode::ok) return;
  world_.counts.note(Event::settled);
  if (!world_.oracle.is_spread(call->subjects)) return;
  if (world_.oracle.is_disturbed()) world_.counts.note(Event::ended_disturbed);
  if (world_.oracle.has_home_restarted(*call)) world_.counts.note(Event::ended_after_start);
}

void QuotaCaller::on_charge(const Asked& asked, const CallPtr& call, const QuotaOutcome& outcome) {
  if (outcome.code == QuotaCode::owner_unreachable) {
    world_.counts.note(Event::unreachable);
    rests_until_ns_ = world_.oracle.now_ns() + world_.random.between(0, rest_ns_max);
    world_.oracle.unreachable(*call, is_at_home(*call));
    if (!call->id.empty()) world_.to_repeat.push_back(call);
    return;
  }
  if (!api::admits(outcome.code)) {
    world_.oracle.refused(*call);
    // A part may be charged: it is not to be charged again.
    if (!call->is_known() && !call->id.empty()) world_.to_repeat.push_back(call);
    return;
  }
  const bool waited = asked.was_queued && world_.oracle.is_spread(call->subjects);
  if (waited) world_.counts.note(Event::granted_spread);
  if (asked.op == QuotaOp::reserve) return on_reserved(asked, call, outcome.reservation);
  world_.counts.note(asked.op == QuotaOp::record ? Event::recorded : Event::consumed);
  world_.oracle.admitted(*call);
}

void QuotaCaller::on_reserved(const Asked& asked, const CallPtr& call, uint64_t reservation) {
  world_.counts.note(Event::reserved);
  world_.oracle.reserved(call, reservation);
  if (asked.is_bound) {
    world_.counts.note(Event::bound);
    bound_.push_back(call);
  } else {
    world_.open.push_back(call);
  }
}

void QuotaCaller::on_extended(const Asked& asked, QuotaCode code) {
  const CallPtr& call = asked.extension->call;
  world_.counts.note(code == QuotaCode::ok ? Event::extended : Event::not_extended);
  world_.oracle.extended(*asked.extension, code, is_at_home(*call));
  if (code != QuotaCode::owner_unreachable || !is_at_home(*call)) return;
  world_.counts.note(Event::part_missed);
  probe_later(call);
}

// Nobody ends it before.
void QuotaCaller::probe_later(const CallPtr& call) {
  const bool is_soon = call->over_at_ns != base::never_ns &&
                       world_.oracle.probe_ns(*call) < world_.oracle.now_ns() + probe_ns_max;
  if (!is_soon || call->is_ending) return;
  std::erase(world_.open, call);
  world_.to_probe.push_back(call);
}

}  // namespace sluice::simulation
