#include "quota_books.hpp"

#include <algorithm>

namespace sluice::simulation {
namespace {

constexpr int64_t year_ms = int64_t{365} * 24 * 3'600 * 1'000;
constexpr uint32_t other_shards = 200;

Tally tally_of(const api::Amounts& amounts) {
  return {.tokens = amounts.input_tokens + amounts.output_tokens, .requests = amounts.requests};
}

Tally least(const Tally& a, const Tally& b) {
  return {.tokens = std::min(a.tokens, b.tokens), .requests = std::min(a.requests, b.requests)};
}

Tally most(const Tally& a, const Tally& b) {
  return {.tokens = std::max(a.tokens, b.tokens), .requests = std::max(a.requests, b.requests)};
}

void add(Tally& sum, const Tally& tally) {
  sum.tokens += tally.tokens;
  sum.requests += tally.requests;
}

void subtract(Tally& sum, const Tally& tally) {
  sum.tokens -= tally.tokens;
  sum.requests -= tally.requests;
}

}  // namespace

QuotaBooks::QuotaBooks(io::Random& random, Failure& failure)
    : random_(random),
      failure_(failure),
      changes_(random.chance(0.5)),
      resets_(random.chance(0.3)),
      refunds_expired_(random.chance(0.3)),
      overtakers_max_(random.chance(0.3) ? 1 + static_cast<uint32_t>(random.below(4)) : 0),
      lifetime_ms_(100 + static_cast<uint32_t>(random.below(1'000))),
      unknown_(static_cast<policy::UnknownSubjects>(random.below(3))) {
  for (const char* tag : {"{a}", "{b}", "{c}"}) {
    for (uint32_t i = 0; i < 3; ++i) subjects_.push_back(tag + std::to_string(i));
  }
  for (uint32_t i = 0; i < 4; ++i) subjects_.push_back("lone" + std::to_string(i));
  for (const std::string& subject : subjects_) kept_[subject].quota = draw_quota();
  default_quota_ = draw_quota();
}

// A quota of some of the small limits, which refuse, and the two that only count.
api::Quota QuotaBooks::draw_quota() {
  static constexpr std::array<int64_t, 4> periods = {10, 40, 150, 600};
  const auto period = [&] { return periods[random_.below(periods.size())]; };
  api::Quota quota{.limits = {}, .refund_expired = refunds_expired_, .profile = {}};
  quota.overtakers_max = overtakers_max_;
  const auto add_limit = [&](const char* name, api::Metric metric, api::LimitKind kind,
                             uint64_t amount, int64_t period_ms) {
    quota.limits.push_back({.name = name,
                            .metric = metric,
                            .kind = kind,
                            .amount = amount,
                            .period_ms = period_ms,
                            .time_zone = {}});
  };
  if (random_.chance(0.4)) {
    add_limit("rpm", api::Metric::requests, api::LimitKind::fixed, 1 + random_.below(8), period());
  }
  if (random_.chance(0.4)) {
    add_limit("tpm", api::Metric::tokens, api::LimitKind::sliding, 20 + random_.below(100),
              period());
  }
  if (random_.chance(0.3)) {
    add_limit("burst", api::Metric::requests, api::LimitKind::gcra, 1 + random_.below(8), period());
  }
  if (random_.chance(0.6)) {
    add_limit("slots", api::Metric::concurrency, api::LimitKind::concurrency, 1 + random_.below(4),
              0);
  }
  add_limit("all", api::Metric::tokens, api::LimitKind::fixed, 0, year_ms);
  add_limit("calls", api::Metric::requests, api::LimitKind::fixed, 0, year_ms);
  for (api::Limit& limit : std::span(quota.limits).last(2)) {
    limit.ceiling = api::Ceiling::unlimited;
  }
  return quota;
}

api::Quota QuotaBooks::changed_quota(const std::string& subject) {
  api::Quota quota = kept_.at(subject).quota;
  for (api::Limit& limit : quota.limits) {
    if (limit.ceiling != api::Ceiling::number || !random_.chance(0.5)) continue;
    limit.amount = random_.below(limit.amount + 1);
    if (random_.chance(0.05)) limit.ceiling = api::Ceiling::block;
  }
  return quota;
}

policy::QuotaRules QuotaBooks::rules(bool changed) {
  policy::QuotaRules rules{.rules = {}, .unknown = unknown_, .unknown_quota = default_quota_};
  rules.lifetime_ms = lifetime_ms_;
  for (const std::string& subject : subjects_) {
    const bool is_regex = random_.chance(0.3);
    const std::string pattern = subject.starts_with("{") ? "^\\" + subject : "^" + subject;
    rules.rules.push_back({.subject = is_regex ? pattern + "$" : subject,
                           .is_regex = is_regex,
                           .quota = changed ? changed_quota(subject) : kept_.at(subject).quota});
  }
  return rules;
}

policy::QuotaRules QuotaBooks::first_rules() {
  return rules(false);
}

policy::QuotaRules QuotaBooks::changed_rules() {
  return rules(changes_);
}

const std::string& QuotaBooks::draw_subject() {
  // A few subjects get most of the calls.
  return subjects_[random_.below(random_.chance(0.6) ? 4 : subjects_.size())];
}

std::vector<std::string> QuotaBooks::draw_call() {
  const auto stranger = [&] { return "stranger" + std::to_string(random_.below(other_shards)); };
  if (random_.chance(0.05)) return {stranger()};
  const std::string first = draw_subject();
  std::vector<std::string> subjects = {first};
  if (random_.chance(0.3)) {
    const std::string second = random_.chance(0.1) ? stranger() : draw_subject();
    if (second != first) subjects.push_back(second);
    const std::string& third = draw_subject();
    if (random_.chance(0.3) && third != first && third != second) subjects.push_back(third);
    return subjects;
  }
  if (!first.starts_with("{") || random_.chance(0.4)) return subjects;
  for (const std::string& subject : subjects_) {
    if (subject != first && subject.starts_with(first.substr(0, 3)) && random_.chance(0.5)) {
      subjects.push_back(subject);
    }
  }
  return subjects;
}

bool QuotaBooks::are_apart(const std::vector<std::string>& subjects) {
  return subjects.size() > 1 && !std::ranges::all_of(subjects, [&](const std::string& subject) {
           return subject.starts_with("{") && subject.starts_with(subjects[0].substr(0, 3));
         });
}

api::Amounts QuotaBooks::draw_amounts() {
  return {.requests = random_.below(10) == 0 ? random_.below(4) : 1,
          .input_tokens = random_.below(20),
          .output_tokens = random_.below(20)};
}

uint32_t QuotaBooks::draw_lifetime_ms() {
  if (random_.chance(0.2)) return 0;
  return 10 + static_cast<uint32_t>(random_.below(random_.chance(0.5) ? 40 : 800));
}

uint64_t QuotaBooks::slots_of(const std::string& subject) const {
  const auto found = kept_.find(subject);
  if (found == kept_.end() && unknown_ != policy::UnknownSubjects::use_quota) return UINT64_MAX;
  const api::Quota& quota = found == kept_.end() ? default_quota_ : found->second.quota;
  const auto slots = std::ranges::find(quota.limits, "slots", &api::Limit::name);
  return slots == quota.limits.end() ? UINT64_MAX : slots->amount;
}

// Changes a charge, and widens the bounds of every open usage query about its subjects: the answer
// may show the usage of any moment until it arrives.
template <typename Change>
void QuotaBooks::change(Charge& charge, Change apply) {
  const Charge before = charge;
  apply();
  for (const std::string& subject : charge.subjects) {
    const auto kept = kept_.find(subject);
    if (kept == kept_.end()) continue;
    subtract(kept->second.may, before.may);
    subtract(kept->second.must, before.must);
    add(kept->second.may, charge.may);
    add(kept->second.must, charge.must);
    for (const QuestionPtr& question : questions_) {
      if (question->subject != subject) continue;
      question->least = least(question->least, kept->second.must);
      question->most = most(question->most, kept->second.may);
    }
  }
}

ChargePtr QuotaBooks::ask_charge(const std::vector<std::string>& subjects,
                                 const api::Amounts& amounts) {
  auto charge = std::make_shared<Charge>();
  charge->subjects = subjects;
  charge->reserved = amounts;
  change(*charge, [&] { charge->may = tally_of(amounts); });
  return charge;
}

void QuotaBooks::denied(Charge& charge) {
  change(charge, [&] { charge.may = charge.must = {}; });
}

void QuotaBooks::recorded(Charge& charge) {
  change(charge, [&] { charge.must = charge.may; });
}

ChargePtr QuotaBooks::admitted(const ChargePtr& charge, uint64_t id, int64_t asked_ns,
                               int64_t now_ns, uint32_t lifetime_ms, bool connection_bound) {
  if (const auto known = charges_.find(id); known != charges_.end()) {
    denied(*charge);  // a repeat: charged once
    return known->second;
  }
  charges_[id] = charge;
  ids_.push_back(id);
  charge->id = id;
  charge->connection_bound = connection_bound;
  charge->open_from_ns = now_ns;
  charge->open_until_ns =
      asked_ns + int64_t{lifetime_ms == 0 ? lifetime_ms_ : lifetime_ms} * base::ns_per_ms;
  // An expired reservation is refunded if the quota demands it.
  if (!refunds_expired_) change(*charge, [&] { charge->must = charge->may; });
  return charge;
}

Charge* QuotaBooks::find(uint64_t id) {
  const auto found = charges_.find(id);
  return found == charges_.end() ? nullptr : found->second.get();
}

void QuotaBooks::ask_end(uint64_t id, const Tally& tally) {
  Charge* charge = find(id);
  if (charge == nullptr || charge->ended) return;
  charge->ends.push_back(tally);
  change(*charge, [&] {
    charge->may = most(charge->may, tally);
    charge->must = least(charge->must, tally);
  });
}

// One of the ends that were sent has happened; which of them was the first is unknown. If it came
// late, a shard that needed the place may have forgotten its part: there the charge stays as the
// expiry left it.
void QuotaBooks::ended(uint64_t id, int64_t now_ns) {
  Charge* charge = find(id);
  if (charge == nullptr || charge->ended || charge->ends.empty()) return;
  charge->ended = true;
  const bool may_be_late = charge->connection_bound || now_ns >= charge->open_until_ns;
  change(*charge, [&] {
    charge->may = charge->must = charge->ends[0];
    for (const Tally& tally : charge->ends) {
      charge->may = most(charge->may, tally);
      charge->must = least(charge->must, tally);
    }
    if (!may_be_late || !are_apart(charge->subjects)) return;
    const Tally expired = refunds_expired_ ? Tally{} : tally_of(charge->reserved);
    charge->may = most(charge->may, expired);
    charge->must = least(charge->must, expired);
  });
}

uint64_t QuotaBooks::draw_reservation() {
  if (ids_.empty()) return 0;
  // Mostly one of the last: the others have ended long ago.
  const uint64_t last = random_.chance(0.8) ? std::min<uint64_t>(ids_.size(), 8) : ids_.size();
  return ids_[ids_.size() - 1 - random_.below(last)];
}

NamedReserve& QuotaBooks::name(const std::vector<std::string>& subjects,
                               const api::Amounts& amounts) {
  const std::string client_id = "call " + std::to_string(named_.size());
  named_.push_back(std::make_unique<NamedReserve>(NamedReserve{.client_id = client_id,
                                                               .subjects = subjects,
                                                               .amounts = amounts,
                                                               .unanswered = {},
                                                               .charge = nullptr}));
  return *named_.back();
}

NamedReserve* QuotaBooks::draw_named() {
  if (named_.empty()) return nullptr;
  const uint64_t last = std::min<uint64_t>(named_.size(), 6);
  return named_[named_.size() - 1 - random_.below(last)].get();
}

const NamedCharge& QuotaBooks::draw_named_charge(api::QuotaOp op, bool& is_repeat) {
  if (!named_charges_.empty() && random_.chance(0.5)) {
    const uint64_t last = std::min<uint64_t>(named_charges_.size(), 6);
    const NamedCharge& drawn = named_charges_[named_charges_.size() - 1 - random_.below(last)];
    is_repeat = drawn.op == op;
    if (is_repeat) return drawn;
  }
  is_repeat = false;
  named_charges_.push_back({.client_id = "charge " + std::to_string(named_charges_.size()),
                            .op = op,
                            .subjects = draw_call(),
                            .amounts = draw_amounts()});
  return named_charges_.back();
}

NamedReserve& QuotaBooks::find_named(const std::string& client_id) {
  return **std::ranges::find_if(named_,
                                [&](const auto& named) { return named->client_id == client_id; });
}

void QuotaBooks::denied_named(const std::string& client_id, int64_t asked_ns) {
  std::multiset<int64_t>& unanswered = find_named(client_id).unanswered;
  unanswered.erase(unanswered.find(asked_ns));
}

void QuotaBooks::admitted_named(const std::string& client_id, const ChargePtr& charge,
                                int64_t asked_ns, int64_t now_ns) {
  NamedReserve& named = find_named(client_id);
  const Charge* before = named.charge.get();
  const bool surely_open = before != nullptr && !before->connection_bound && before->ends.empty() &&
                           asked_ns > before->open_from_ns && now_ns < before->open_until_ns;
  if (surely_open && before != charge.get()) {
    failure_.report("the repeat of " + client_id + " got a second reservation");
  }
  // Any call without an answer may have made the reservation.
  charge->open_until_ns = std::min(charge->open_until_ns,
                                   *named.unanswered.begin() + named_lifetime_ms * base::ns_per_ms);
  named.unanswered.erase(named.unanswered.find(asked_ns));
  named.charge = charge;
}

void QuotaBooks::check_end(uint64_t id, const std::string& way, const std::string& text) {
  Charge* charge = find(id);
  if (charge == nullptr) return;
  const auto [reported, fresh] = charge->reported.emplace(way, text);
  if (!fresh && reported->second != text) {
    failure_.report("a repeated " + way + " was answered " + text + " after " + reported->second);
  }
}

QuestionPtr QuotaBooks::ask_usage(const std::string& subject) {
  const Kept& kept = kept_.at(subject);
  questions_.push_back(std::make_shared<UsageQuestion>(
      UsageQuestion{.subject = subject, .least = kept.must, .most = kept.may}));
  return questions_.back();
}

// With resets there is no lower bound: a reset may forget charges at any time.
void QuotaBooks::check_usage(const UsageQuestion& question, const std::string& limit,
                             uint64_t used) {
  const auto check = [&](uint64_t must, uint64_t may) {
    ++usages_checked_;
    if (used >= must && used <= may) return;
    failure_.report(limit + " of " + question.subject + " is " + std::to_string(used) +
                    " where the books have " + std::to_string(must) + " to " + std::to_string(may));
  };
  const bool counts = limit == "all" || limit == "calls";
  const bool tokens = limit == "all" || limit == "tpm";
  if (limit == "slots") return check(0, slots_of(question.subject));
  const uint64_t must = tokens ? question.least.tokens : question.least.requests;
  check(counts && !resets_ ? must : 0, tokens ? question.most.tokens : question.most.requests);
}

}  // namespace sluice::simulation
