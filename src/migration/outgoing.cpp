#include "migration/outgoing.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <string>
#include <utility>

#include "migration/model_quota.hpp"
#include "transfer/complaints.hpp"

namespace sluice::migration {
namespace {

using Charge = SubjectMeters::Charge;

std::string subject_place(const std::string& subject) {
  return "subject " + transfer::shown_name(subject);
}

class OutgoingMapping {
 public:
  explicit OutgoingMapping(const StoredSubjects& stored) : stored_(stored) {}

  Outgoing write(const policy::QuotaRules* rules) {
    for (const StoredSubject& subject : stored_.subjects) take(subject);
    note_reservations();
    if (rules != nullptr) note_rules(*rules);
    if (outgoing_.requests > outgoing_requests_max) complain_of_requests();
    return std::move(outgoing_);
  }

 private:
  void take(const StoredSubject& subject) {
    QuotaOutThere mapped = model_quota_of(subject.quota);
    for (const transfer::Complaint& each : mapped.left_out) {
      leave_out(subject_place(subject.name) + ", " + each.place, each.text);
    }
    if (!mapped.is_known) {
      return leave_out(subject_place(subject.name),
                       "none of its limits: the library will allow it everything");
    }
    transfer::ModelUsage usage = usage_of(subject.meters, mapped);
    outgoing_.file.quotas.emplace(subject.name, mapped.quota);
    if (usage == transfer::ModelUsage{}) return;
    outgoing_.file.usage.emplace(subject.name, std::move(usage));
  }

  transfer::ModelUsage usage_of(const SubjectMeters& meters, const QuotaOutThere& mapped) {
    transfer::ModelUsage usage;
    const auto place_of_limit = [&](ModelLimit which) {
      return mapped.places[static_cast<size_t>(which)];
    };
    if (const auto rpm = place_of_limit(ModelLimit::rpm)) take_requests(meters, *rpm, usage);
    if (const auto tpm = place_of_limit(ModelLimit::tpm)) take_tokens(meters, *tpm, usage);
    if (const auto rpd = place_of_limit(ModelLimit::rpd)) take_day(meters, *rpd, usage);
    return usage;
  }

  // When there are too many, they are only counted.
  void take_requests(const SubjectMeters& meters, size_t limit, transfer::ModelUsage& usage) {
    for (const Charge& charge : meters.charges_of_ring(limit, stored_.now.state_ns)) {
      const bool fits = charge.amount <= outgoing_requests_max &&
                        outgoing_.requests + charge.amount <= outgoing_requests_max;
      outgoing_.requests = fits ? outgoing_.requests + charge.amount : outgoing_requests_max + 1;
      if (!fits) return;
      usage.requests_wall_ns.insert(usage.requests_wall_ns.end(), charge.amount,
                                    stored_.now.wall_at(charge.state_ns));
    }
  }

  void take_tokens(const SubjectMeters& meters, size_t limit, transfer::ModelUsage& usage) {
    for (const Charge& charge : meters.charges_of_ring(limit, stored_.now.state_ns)) {
      usage.tokens.push_back({.wall_ns = stored_.now.wall_at(charge.state_ns),
                              .count = static_cast<int64_t>(charge.amount)});
      ++outgoing_.token_events;
    }
  }

  void take_day(const SubjectMeters& meters, size_t limit, transfer::ModelUsage& usage) {
    const std::optional<Charge> day = meters.charge_of_day(limit);
    if (!day) return;
    usage.day_start_wall_ns = stored_.now.wall_at(day->state_ns);
    usage.day_count = static_cast<int64_t>(day->amount);
    ++outgoing_.days;
  }

  void note_reservations() {
    if (stored_.open_reservations > 0) {
      leave_out("open reservations",
                fmt::format("{}: what they hold counts as used; the library cannot settle it",
                            stored_.open_reservations));
    }
    if (stored_.remembered_reservations > 0) {
      leave_out("ended reservations",
                fmt::format("{} are remembered, to answer repeats of their calls",
                            stored_.remembered_reservations));
    }
  }

  void note_rules(const policy::QuotaRules& rules) {
    for (const policy::QuotaRule& rule : rules.rules) {
      if (!rule.is_regex && !rule.is_prefix) continue;
      leave_out(fmt::format("configuration file, {} {}", rule.is_regex ? "pattern" : "prefix",
                            transfer::shown_name(rule.subject)),
                rule.is_regex
                    ? "the library knows whole names only: of the subjects that it matches, those "
                      "in the state file are there"
                    : "the library knows whole names only: of the subjects that go on behind it, "
                      "those in the state file are there");
    }
    if (rules.unknown == policy::UnknownSubjects::allow) return;
    leave_out("configuration file, unknown_subjects",
              "the library allows everything to subjects without a quota");
  }

  void complain_of_requests() {
    outgoing_.complaints.push_back(
        {.place = "",
         .text = fmt::format("there are more than {} requests of the last minute, each of which "
                             "would be an entry of its own; wait until there are fewer",
                             outgoing_requests_max)});
  }

  void leave_out(std::string place, std::string text) {
    outgoing_.left_out.push_back({.place = std::move(place), .text = std::move(text)});
  }

  const StoredSubjects& stored_;
  Outgoing outgoing_;
};

}  // namespace

Outgoing outgoing_of(const StoredSubjects& stored, const policy::QuotaRules* rules) {
  return OutgoingMapping(stored).write(rules);
}

}  // namespace sluice::migration
