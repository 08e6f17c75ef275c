#include "quota_oracle.hpp"

namespace sluice::simulation {

using api::QuotaCode;
using api::QuotaOp;

namespace {

size_t place_of(const KnownCall& call, const std::string& subject) {
  const auto at = std::ranges::find(call.subjects, subject);
  return static_cast<size_t>(at - call.subjects.begin());
}

const CallCharge& charge_of(const KnownCall& call, const std::string& subject) {
  return call.charges[place_of(call, subject)];
}

}  // namespace

bool QuotaOracle::is_spread(const Subjects& subjects) const {
  return std::ranges::any_of(subjects, [&](const std::string& subject) {
    return owner_of(subject) != owner_of(subjects.front());
  });
}

uint64_t QuotaOracle::starts_of(const std::string& subject) const {
  const auto found = starts_.find(owner_of(subject));
  return found == starts_.end() ? 0 : found->second;
}

std::vector<uint64_t> QuotaOracle::starts_of(const Subjects& subjects) const {
  std::vector<uint64_t> starts;
  for (const std::string& subject : subjects) starts.push_back(starts_of(subject));
  return starts;
}

// --- calls that charge

CallPtr QuotaOracle::ask(KnownCall call) {
  call.charges.resize(call.subjects.size());
  call.starts = starts_of(call.subjects);
  call.asked_ns = now_ns_;
  call.under_way = 1;
  for (CallCharge& each : call.charges) {
    each.charged.set(now_ns_, Charged::nothing_or(call.tokens));
  }
  CallPtr kept = std::make_shared<KnownCall>(std::move(call));
  for (const std::string& subject : kept->subjects) calls_[subject].push_back(kept);
  return kept;
}

// The home of several owners may remember what one of them has forgotten in a crash: a repeat is
// not charged there again.
void QuotaOracle::ask_again(KnownCall& call) {
  if (!is_spread(call.subjects)) call.starts = starts_of(call.subjects);
  ++call.under_way;
  for (CallCharge& each : call.charges) {
    if (each.charged.now().most() == 0) {
      each.charged.set(now_ns_, Charged::nothing_or(call.tokens));
    }
  }
}

void QuotaOracle::admitted(KnownCall& call) {
  --call.under_way;
  call.is_lost = false;
  for (size_t place = 0; place < call.subjects.size(); ++place) {
    if (call.starts[place] != starts_of(call.subjects[place])) {
      call.charges[place].kept = Kept::unknown;
      continue;
    }
    call.charges[place].kept = Kept::yes;
    call.charges[place].charged.set(now_ns_, Charged::exactly(call.tokens));
    if (call.op == QuotaOp::record) continue;
    check_limit(call, place);
    check_room(call, place);
  }
}

void QuotaOracle::reserved(const CallPtr& call, uint64_t reservation) {
  admitted(*call);
  const int64_t lifetime_ns = int64_t{call->lifetime_ms} * base::ns_per_ms;
  call->reservation = reservation;
  call->opened_ns = now_ns_;
  call->open_until = OpenUntil(call->asked_ns + lifetime_ns - tick_ns);
  for (CallCharge& each : call->charges) each.open_until = call->open_until;
  call->over_at_ns = call->longest_until_ns = now_ns_ + lifetime_ns;
  call->is_known_open = call->is_sure = is_since_start(*call);
  if (!call->is_known_open) return;
  for (const std::string& subject : call->subjects) {
    std::vector<CallPtr>& opened = opened_[subject];
    std::erase_if(opened, [](const CallPtr& each) { return !each->is_known_open; });
    opened.push_back(call);
    if (open_count(subject, now_ns_) > slots_max) {
      fail(subject + " has more open reservations than slots: " + open_ones(subject));
    }
  }
}

// What a part has held may be charged there where its verdict is lost.
void QuotaOracle::refused(KnownCall& call) {
  --call.under_way;
  if (!call.is_lost) take_back(call, was_disturbed_since(call.asked_ns));
}

void QuotaOracle::unreachable(KnownCall& call, bool is_at_home) {
  --call.under_way;
  if (call.op == QuotaOp::reserve && is_at_home) return take_back(call, true);
  call.is_lost = true;
}

void QuotaOracle::lost(KnownCall& call) {
  --call.under_way;
  call.is_lost = true;
}

// Nothing is charged at its home. Other nodes may have charged their parts: of a reservation until
// its home's cancel has reached them, else for good.
void QuotaOracle::take_back(KnownCall& call, bool stays_at_parts) {
  call.has_ended = true;
  call.ended_ns = now_ns_;
  call.starts_at_end = starts_of(call.subjects);
  for (size_t place = 0; place < call.subjects.size(); ++place) {
    CallCharge& charge = call.charges[place];
    const bool may_stay = stays_at_parts && !is_at_home(call, place);
    if (may_stay && call.op != QuotaOp::reserve) continue;
    if (may_stay) charge.without_home = Charged::nothing_or(call.tokens);
    const int64_t lifetime_ns = int64_t{call.lifetime_ms} * base::ns_per_ms;
    if (may_stay && lifetime_ns < repeats_ns) {
      charge.mending = {.since_ns = now_ns_,
                        .until_ns = call.asked_ns + lifetime_ns + part_slack_ns,
                        .tokens = 0};
      continue;
    }
    charge.charged.set(now_ns_, Charged::exactly(0));
    const bool may_come_again = call.under_way > 0 || !call.id.empty();
    if (!charge.without_home && !may_come_again) {
      std::erase_if(calls_[call.subjects[place]],
                    [&](const CallPtr& each) { return each.get() == &call; });
    }
  }
}

// What callers have been admitted to use. A settle may charge more.
void QuotaOracle::check_limit(const KnownCall& call, size_t place) {
  uint64_t least = 0;
  for (const CallPtr& each : calls_[call.subjects[place]]) {
    if (each->op == QuotaOp::record) continue;
    const CallCharge& charge = charge_of(*each, call.subjects[place]);
    least += std::min(charge.charged.now().least(), each->tokens);
  }
  if (least > tokens_max_) fail(call.subjects[place] + " has admitted more than its limit");
}

// What was charged when the call was asked for, and still is, leaves it no room.
void QuotaOracle::check_room(const KnownCall& call, size_t place) {
  const std::string& subject = call.subjects[place];
  uint64_t used = 0;
  for (const CallPtr& each : calls_[subject]) {
    const CallCharge& charge = charge_of(*each, subject);
    if (charge.charged.since_ns() < call.asked_ns) used += charge.charged.now().least();
  }
  if (used + call.tokens > tokens_max_) fail(subject + " has admitted a call without room for it");
  if (open_count(subject, call.asked_ns) >= slots_max) {
    fail(subject + " has admitted a call without a slot for it: " + open_ones(subject));
  }
}

KnownCall QuotaOracle::for_check(KnownCall call) const {
  call.starts = starts_of(call.subjects);
  call.asked_ns = now_ns_;
  return call;
}

void QuotaOracle::check_admitted(const KnownCall& call) {
  for (size_t place = 0; place < call.subjects.size(); ++place) {
    if (call.starts[place] == starts_of(call.subjects[place])) check_room(call, place);
  }
}

bool QuotaOracle::is_open(const KnownCall& call, const std::string& subject) const {
  return call.is_known_open && call.open_until_ns(place_of(call, subject)) > now_ns_;
}

bool QuotaOracle::is_open_everywhere(const KnownCall& call) const {
  const auto is_open_there = [&](const CallCharge& each) { return each.open_until.ns() > now_ns_; };
  return call.open_until_ns() > now_ns_ && std::ranges::all_of(call.charges, is_open_there);
}

// Those that were open then, and still are.
uint64_t QuotaOracle::open_count(const std::string& subject, int64_t since_ns) const {
  const auto found = opened_.find(subject);
  if (found == opened_.end()) return 0;
  return static_cast<uint64_t>(std::ranges::count_if(found->second, [&](const CallPtr& each) {
    return each->opened_ns <= since_ns && is_open(*each, subject);
  }));
}

std::string QuotaOracle::open_ones(const std::string& subject) const {
  std::string text;
  for (const CallPtr& each : opened_.at(subject)) {
    if (!is_open(*each, subject)) continue;
    text += std::to_string(each->reservation) + " of node " + std::to_string(home_of(*each)) +
            " and of " + std::to_string(each->subjects.size()) + " subjects, for " +
            std::to_string(each->open_until_ns(place_of(*each, subject)) - now_ns_) + " ns; ";
  }
  return text;
}

// --- the end of a reservation

void QuotaOracle::ask_end(KnownCall& call) {
  call.is_ending = true;
  call.end_asked_ns = now_ns_;
  call.is_known_open = false;
  call.starts_at_end = starts_of(call.subjects);
  for (CallCharge& each : call.charges) {
    if (each.kept == Kept::no) continue;
    each.charged.set(now_ns_, each.charged.now().or_else(Charged::exactly(call.settled_tokens)));
  }
}

void QuotaOracle::ended(KnownCall& call, QuotaCode code) {
  if (code == QuotaCode::ok) {
    call.has_ended = true;
    call.ended_ns = now_ns_;
    for (size_t place = 0; place < call.subjects.size(); ++place) end_charge(call, place);
    return;
  }
  // A home that was started again may have forgotten what was made and ended shortly before.
  const bool is_since_asked = call.starts_at_end.front() == starts_of(call.subjects.front());
  const bool must_be_open = call.open_until_ns() > now_ns_ && call.is_sure && is_since_asked;
  if (must_be_open && code != QuotaCode::owner_unreachable) {
    fail("the end of an open reservation is " + std::string(api::code_name(code)));
  }
}

// At home it holds. Other nodes have it at once or, where messages are lost, as long as their parts
// live and the home repeats it. A part that has lost an extension may be forgotten before.
void QuotaOracle::end_charge(KnownCall& call, size_t place) const {
  CallCharge& charge = call.charges[place];
  const bool was_lost = call.starts_at_end[place] != starts_of(call.subjects[place]);
  if (charge.kept == Kept::no || was_lost) return;
  const Charged before = charge.charged.now();
  const bool is_home = is_at_home(call, place);
  if (!is_home && charge.kept == Kept::unknown) return;
  const int64_t until_ns = std::min(call.open_until_ns(), charge.open_until.ns() + expired_part_ns);
  const bool is_certain = !was_disturbed_since(call.end_asked_ns) && until_ns > now_ns_;
  if (!is_home && !is_certain) {
    if (until_ns - now_ns_ < repeats_ns) {
      charge.mending = {
          .since_ns = now_ns_, .until_ns = until_ns + part_slack_ns, .tokens = call.settled_tokens};
      return;
    }
    charge.without_home = before;
  }
  charge.charged.set(now_ns_, Charged::exactly(call.settled_tokens));
}

void QuotaOracle::unbound(KnownCall& call) {
  call.is_ending = true;
  call.end_asked_ns = now_ns_;
  call.is_known_open = false;
}

// --- extensions

QuotaOracle::Extension QuotaOracle::ask_extension(const CallPtr& call, uint32_t lifetime_ms) {
  const uint32_t wanted_ms = lifetime_ms != 0 ? lifetime_ms : call->lifetime_ms;
  Extension extension{.call = call,
                      .starts = starts_of(call->subjects),
                      .lifetime_ms = wanted_ms,
                      .asked_ns = now_ns_};
  call->is_extending = true;
  call->extending_until_ns = now_ns_ + int64_t{wanted_ms} * base::ns_per_ms - tick_ns;
  return extension;
}

void QuotaOracle::extended(const Extension& extension, QuotaCode code, bool is_at_home) {
  KnownCall& call = *extension.call;
  const bool may_be_lost = extension.starts.front() != starts_of(call.subjects.front());
  const bool is_uncertain = code == QuotaCode::owner_unreachable && !is_at_home;
  if (may_be_lost || is_uncertain) return extension_lost(extension);
  call.is_extending = false;
  call.extending_until_ns = base::never_ns;
  const int64_t lifetime_ns = int64_t{extension.lifetime_ms} * base::ns_per_ms;
  // Of one that fails some parts may have it, or all.
  call.longest_until_ns = std::max(call.longest_until_ns, now_ns_ + lifetime_ns);
  if (code == QuotaCode::ok) {
    if (call.over_at_ns != base::never_ns && extension.asked_ns > call.over_at_ns + late_ns) {
      fail("a reservation is extended behind its end");
    }
    call.lifetime_ms = extension.lifetime_ms;
    set_extended(extension, extension.asked_ns + lifetime_ns - tick_ns);
    if (call.over_at_ns != base::never_ns) call.over_at_ns = now_ns_ + lifetime_ns;
    return;
  }
  const bool must_be_open = is_open_everywhere(call) && call.is_sure && !call.is_ending;
  if (must_be_open && code != QuotaCode::owner_unreachable) {
    fail("the extension of an open reservation is " + std::string(api::code_name(code)));
  }
}

// A part may have lost it already, in a crash since it was asked for.
void QuotaOracle::set_extended(const Extension& extension, int64_t until_ns) const {
  KnownCall& call = *extension.call;
  call.open_until.set(now_ns_, until_ns);
  for (size_t place = 0; place < call.subjects.size(); ++place) {
    OpenUntil& part = call.charges[place].open_until;
    const bool may_be_lost = extension.starts[place] != starts_of(call.subjects[place]);
    part.set(now_ns_, may_be_lost ? std::min(part.ns(), until_ns) : until_ns);
  }
}

// It may still come, and be the shorter one.
void QuotaOracle::extension_lost(const Extension& extension) {
  KnownCall& call = *extension.call;
  call.is_extending = call.is_known_open = call.is_sure = false;
  call.open_until.set(now_ns_, call.open_until_ns());
  call.extending_until_ns = base::never_ns;
  call.over_at_ns = base::never_ns;
}

// --- what happens to nodes

void QuotaOracle::disturbed(int64_t until_ns) {
  // A link that is back has messages, and connections, on the way.
  constexpr int64_t settles_ns = base::ns_per_s;
  disturbances_.push_back({.from_ns = now_ns_, .until_ns = until_ns + settles_ns});
  disturbed_until_ns_ = std::max(disturbed_until_ns_, until_ns + settles_ns);
}

void QuotaOracle::crashed(uint32_t node, int64_t kept_ns) {
  ++starts_[node];
  if (kept_ns != never_kept) crashes_[node].push_back({.at_ns = now_ns_, .kept_ns = kept_ns});
  for (const auto& [subject, calls] : calls_) {
    for (const CallPtr& call : calls) {
      const auto place = std::ranges::find(call->subjects, subject) - call->subjects.begin();
      if (owner_of(subject) == node) restart(*call, static_cast<size_t>(place), kept_ns);
      // Its first subject may have no list any more that it is in.
      if (home_of(*call) == node) lose_home(*call, kept_ns);
    }
  }
}

void QuotaOracle::restart(KnownCall& call, size_t place, int64_t kept_ns) const {
  CallCharge& charge = call.charges[place];
  charge.mending.reset();
  charge.open_until.lose(now_ns_, kept_ns);
  const bool is_open = call.under_way > 0 || call.is_lost;
  if (kept_ns != never_kept) {
    Charged since = charge.charged.since(kept_ns);
    if (charge.without_home) since = since.or_else(*charge.without_home);
    charge.charged.set(now_ns_, since);
    if (!was_known(call, kept_ns) && charge.kept == Kept::yes) charge.kept = Kept::unknown;
  } else {
    const Charged nothing = Charged::exactly(0);
    charge.charged.set(now_ns_, is_open ? charge.charged.now().or_else(nothing) : nothing);
    charge.kept = is_open ? Kept::unknown : Kept::no;
  }
  if (!was_known(call, kept_ns)) call.is_known_open = call.is_sure = false;
}

// It repeats nothing to other nodes any more.
void QuotaOracle::lose_home(KnownCall& call, int64_t kept_ns) const {
  for (CallCharge& each : call.charges) {
    each.mending.reset();
    if (!each.without_home || each.kept == Kept::no) continue;
    each.charged.set(now_ns_, each.charged.now().or_else(*each.without_home));
  }
  call.over_at_ns = base::never_ns;
  call.open_until.lose(now_ns_, kept_ns);
  if (call.is_bound || !was_known(call, kept_ns)) call.is_known_open = call.is_sure = false;
}

// --- the end

bool QuotaOracle::was_calm(int64_t since_ns, int64_t until_ns) const {
  for (const Disturbance& each : disturbances_) {
    if (std::min(each.from_ns, until_ns) - since_ns >= mends_ns) return true;
    since_ns = std::max(since_ns, each.until_ns);
  }
  return false;
}

Charged QuotaOracle::charged_in_the_end(const KnownCall& call, const std::string& subject) const {
  const CallCharge& charge = charge_of(call, subject);
  const bool is_mended =
      charge.mending && was_calm(charge.mending->since_ns, charge.mending->until_ns);
  return is_mended ? Charged::exactly(charge.mending->tokens) : charge.charged.now();
}

uint64_t QuotaOracle::most_charged(const std::string& subject) const {
  const auto found = calls_.find(subject);
  if (found == calls_.end()) return 0;
  uint64_t most = 0;
  for (const CallPtr& each : found->second) most += charge_of(*each, subject).charged.now().most();
  return most;
}

// Whether a node with a part of it may have lost its home's word that it is over, in a crash behind
// that: the home does not say it again to a node that has had it.
bool QuotaOracle::may_have_lost_end(const KnownCall& call, uint32_t node) const {
  const auto crashes = crashes_.find(node);
  if (crashes == crashes_.end()) return false;
  const int64_t said_ns =
      call.is_ending ? std::min(call.end_asked_ns, call.open_until_ns()) : call.open_until_ns();
  int64_t had_ns = base::never_ns;
  if (call.has_ended) {
    had_ns = call.ended_ns;
  } else if (call.over_at_ns != base::never_ns) {
    had_ns = call.over_at_ns + late_ns;
  }
  return std::ranges::any_of(crashes->second, [&](const Crash& each) {
    return each.at_ns > said_ns && !was_calm(had_ns, each.kept_ns);
  });
}

// Whether its owner may have it open when all nodes have had time to end it.
bool QuotaOracle::may_be_open(const KnownCall& call, const std::string& subject,
                              int64_t at_ns) const {
  if (call.op != QuotaOp::reserve) return false;
  const bool is_part = owner_of(subject) != home_of(call);
  const bool has_lost_end = is_part && may_have_lost_end(call, owner_of(subject));
  const bool home_knows_end =
      call.has_ended && call.starts_at_end.front() == starts_of(call.subjects.front());
  if (home_knows_end && !has_lost_end) return false;
  if (call.reservation != 0 && call.over_at_ns == base::never_ns) return true;
  const int64_t made_until_ns =
      call.asked_ns + answered_ns_max + int64_t{call.lifetime_ms} * base::ns_per_ms;
  // A part is not over by a shorter extension, but by its home's word.
  const int64_t known_until_ns = has_lost_end ? call.longest_until_ns : call.over_at_ns;
  const int64_t over_at_ns = call.reservation != 0 ? known_until_ns : made_until_ns;
  return over_at_ns + late_ns + (is_part ? part_slack_ns_max : 0) > at_ns;
}

void QuotaOracle::check_open(const SubjectUsage& usage, int64_t asked_ns) {
  const uint64_t least = open_count(usage.name, asked_ns);
  const auto most =
      static_cast<uint64_t>(std::ranges::count_if(calls_[usage.name], [&](const CallPtr& each) {
        return may_be_open(*each, usage.name, asked_ns);
      }));
  if (usage.open_reservations >= least && usage.open_reservations <= most) return;
  fail(usage.name + " has " + std::to_string(usage.open_reservations) +
       " open reservations, and its callers know of " + std::to_string(least) + " to " +
       std::to_string(most));
}

void QuotaOracle::check_usage(const SubjectUsage& usage) {
  ChargedSums all;
  for (const CallPtr& each : calls_[usage.name]) {
    all.add(charged_in_the_end(*each, usage.name));
  }
  ++(all.count() == 1 ? exact_ : between_);
  charged_ += usage.used;
  unknown_ += all.count() - 1;
  if (!all.has(usage.used)) {
    fail(usage.name + " has charged " + std::to_string(usage.used) + ", and its callers know of " +
         std::to_string(all.least()) + " to " + std::to_string(all.most()) + ", " +
         std::to_string(all.count()) + " amounts");
  }
  if (usage.reserved + usage.open_reservations + usage.waiting > 0) {
    fail("something is reserved or waits in the end: " + usage.name);
  }
}

}  // namespace sluice::simulation
