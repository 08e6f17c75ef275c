#include "policy/quota_text.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_set>

#include "base/limits.hpp"
#include "base/time.hpp"
#include "limiter/zone.hpp"
#include "policy/number_fields.hpp"
#include "text/joined_list.hpp"
#include "text/quote.hpp"
#include "text/utf8.hpp"

namespace sluice::policy {
namespace {

using api::CalendarUnit;
using api::Ceiling;
using api::Limit;
using api::LimitKind;
using api::Metric;
using api::Quota;
using text::joined_list;
using text::Json;
using text::quoted_excerpt;
using text::shown;
using text::whole_number;

constexpr int64_t day_ms = base::ns_per_day / base::ns_per_ms;

// Adds a complaint about a field.
using Complain = std::function<void(std::string_view field, const std::string& what)>;

std::string joined(const std::string& place, std::string_view field) {
  if (place.empty() || field.empty()) return place + std::string{field};
  return place + ", " + std::string{field};
}

// The first kind and the first unit that JSON may name: it has no "concurrency" and no "none".
constexpr auto first_kind = static_cast<size_t>(LimitKind::fixed);
constexpr auto first_unit = static_cast<size_t>(CalendarUnit::hour);

constexpr std::array<std::string_view, 8> limit_fields{
    "name", "metric", "amount", "period_ms", "kind", "period", "time_zone", "count_cached"};
constexpr std::array<std::string_view, 3> quota_fields{"limits", "expired", "overtakers"};

// The fields that the answer to a GET adds (wire/rest_quota_reply.cpp).
constexpr std::array<std::string_view, 4> reported_limit_fields{"used", "reserved", "remaining",
                                                                "reset_ms"};
constexpr std::array<std::string_view, 5> reported_quota_fields{"name", "source", "profile",
                                                                "open_reservations", "waiting"};

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// ---- Values ---------------------------------------------------------------------------------

bool counts_input(Metric metric) {
  return metric == Metric::input_tokens || metric == Metric::tokens;
}

// Names appear in JSON and in headers.
bool is_plain_text(const std::string& text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return !std::ranges::any_of(text, is_control) && text::is_utf8(text);
}

void check_name(const Limit& limit, const Complain& complain) {
  if (limit.name.size() < limit_name_field.min || limit.name.size() > limit_name_field.max) {
    complain("name", "must have 1 to " + std::to_string(limit_name_field.max) + " bytes, not " +
                         std::to_string(limit.name.size()));
  } else if (!is_plain_text(limit.name)) {
    complain("name", "must be UTF-8 without control characters");
  }
}

void check_concurrency(const Limit& limit, const Complain& complain) {
  if (limit.kind != LimitKind::concurrency) {
    complain("kind", "concurrency has none: leave it out");
  }
  if (limit.period_ms != 0) complain("period_ms", "concurrency has none: leave it out");
}

void check_period(Limit& limit, const Complain& complain) {
  const std::string not_this = ", not " + std::to_string(limit.period_ms);
  switch (limit.kind) {
    case LimitKind::concurrency:
      complain("kind", "kind concurrency needs metric concurrency");
      break;
    case LimitKind::fixed:
    case LimitKind::sliding:
    case LimitKind::gcra:
      if (limit.period_ms < static_cast<int64_t>(period_field.min) ||
          limit.period_ms > static_cast<int64_t>(period_field.max)) {
        complain("period_ms", text::whole_number_complaint(limit.period_ms, period_field));
      }
      break;
    case LimitKind::anchored_day:
    case LimitKind::rolling_day:
      if (limit.period_ms == 0) limit.period_ms = day_ms;
      if (limit.period_ms != day_ms) {
        complain("period_ms", "of a day must be 86400000, or left out" + not_this);
      }
      break;
    case LimitKind::calendar:
      if (limit.period_ms != 0) {
        complain("period_ms", "a calendar has none: set \"period\" to hour, day, week or month");
      }
      break;
  }
}

void check_calendar(Limit& limit, Form form, const Complain& complain) {
  if (limit.kind == LimitKind::calendar) {
    if (limit.unit == CalendarUnit::none) {
      complain("period", "is missing: a calendar's is hour, day, week or month");
    }
    if (limit.time_zone.empty()) limit.time_zone = "UTC";
    if (form != Form::sent && limiter::find_zone(limit.time_zone) == nullptr) {
      complain("time_zone", "there is no " + quoted_excerpt(limit.time_zone) +
                                "; names are IANA's, such as \"America/Los_Angeles\" (the system's "
                                "package tzdata has them)");
    }
    return;
  }
  if (limit.unit != CalendarUnit::none) {
    complain("period", "is for \"kind\": \"calendar\"; others have period_ms");
  }
  if (!limit.time_zone.empty()) complain("time_zone", "is only for \"kind\": \"calendar\"");
}

void check_limit(Limit& limit, Form form, const Complain& complain) {
  check_name(limit, complain);
  if (limit.metric == Metric::concurrency) {
    check_concurrency(limit, complain);
  } else {
    check_period(limit, complain);
  }
  check_calendar(limit, form, complain);
  if (limit.ceiling != Ceiling::number) limit.amount = 0;
  if (limit.amount > amount_field.max) {
    complain("amount", "must be at most " + std::to_string(amount_field.max));
  }
  if (limit.count_cached && !counts_input(limit.metric)) {
    complain("count_cached", "is only for input_tokens and tokens");
  }
}

std::string too_many_limits(size_t count) {
  return "has " + std::to_string(count) + "; at most " + std::to_string(limits_field.max) +
         " are allowed";
}

// Complains of each limit that repeats an earlier limit's name.
void check_names_differ(const std::vector<Limit>& limits,
                        const std::function<void(size_t index)>& complain) {
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (!limits[i].name.empty() && !names.insert(limits[i].name).second) complain(i);
  }
}

constexpr std::string_view name_is_taken =
    "is also the name of an earlier limit: names must differ";

// ---- JSON -----------------------------------------------------------------------------------

// Reads one limit, field by field. Complains once of a field that it cannot read.
class LimitReader {
 public:
  LimitReader(size_t index, const Json& entry, const std::string& place, Form form,
              std::vector<std::string>& complaints)
      : form_(form), complaints_(complaints) {
    const bool is_object = entry.is_object();
    const auto name = is_object ? entry.find("name") : entry.end();
    const bool has_name = is_object && name != entry.end() && name->is_string();
    place_ = joined(place, limit_place(index, has_name ? name->get<std::string>() : ""));
    if (!is_object) {
      complain("", "must be an object, not " + shown(entry));
      return;
    }
    for (const auto& [field, value] : entry.items()) {
      if (form != Form::written && contains(reported_limit_fields, field)) continue;
      if (!contains(limit_fields, field)) {
        complain(quoted_excerpt(field),
                 "no such field; there are " + joined_list(limit_fields, "and"));
      } else if (!value.is_null()) {
        given_.insert(field);
        read(field, value);
      }
    }
    check();
  }

  Limit take() { return std::move(limit_); }

 private:
  void complain(std::string_view field, const std::string& what) {
    if (!field.empty() && !bad_.insert(std::string{field}).second) return;
    complaints_.push_back(joined(place_, field) + ": " + what);
  }

  void read(std::string_view field, const Json& value) {
    if (field == "name") {
      read_text(field, value, limit_.name);
    } else if (field == "metric") {
      read_word(field, value, api::metric_names, 0, limit_.metric);
    } else if (field == "amount") {
      read_amount(value);
    } else if (field == "period_ms") {
      read_period(value);
    } else if (field == "kind") {
      read_word(field, value, api::kind_names, first_kind, limit_.kind);
    } else if (field == "period") {
      read_word(field, value, api::unit_names, first_unit, limit_.unit);
    } else if (field == "time_zone") {
      read_text(field, value, limit_.time_zone);
    } else if (value.is_boolean()) {
      limit_.count_cached = value.get<bool>();
    } else {
      complain(field, "must be true or false, not " + shown(value));
    }
  }

  void read_text(std::string_view field, const Json& value, std::string& out) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      complain(field, "must be a string that is not empty, not " + shown(value));
      return;
    }
    out = value.get<std::string>();
  }

  // A name's index is the value's number. Names before index `first` are not read.
  template <typename Value>
  void read_word(std::string_view field, const Json& value, std::span<const std::string_view> names,
                 size_t first, Value& out) {
    for (size_t i = first; i < names.size(); ++i) {
      if (value.is_string() && value.get_ref<const std::string&>() == names[i]) {
        out = static_cast<Value>(i);
        return;
      }
    }
    complain(field, "must be " + joined_list(names.subspan(first), "or") + ", not " + shown(value));
  }

  void read_amount(const Json& value) {
    if (const auto number = whole_number(value, amount_field)) {
      limit_.amount = *number;
    } else if (value == "unlimited") {
      limit_.ceiling = Ceiling::unlimited;
    } else if (value == "block") {
      limit_.ceiling = Ceiling::block;
    } else {
      complain("amount", "must be a whole number from 0 to " + std::to_string(amount_field.max) +
                             ", \"unlimited\" or \"block\", not " + shown(value));
    }
  }

  void read_period(const Json& value) {
    if (const auto number = whole_number(value, 0, period_field.max)) {
      limit_.period_ms = static_cast<int64_t>(*number);
    } else {
      complain("period_ms", text::whole_number_complaint(value, period_field));
    }
  }

  // The value of a field that could not be read is not known: it causes no complaints about others.
  void check() {
    for (const std::string_view field : {"name", "metric", "amount"}) {
      if (!given_.contains(std::string{field})) complain(field, "is missing");
    }
    if (limit_.metric == Metric::concurrency && !given_.contains("kind")) {
      limit_.kind = LimitKind::concurrency;
    }
    if (bad_.contains("metric") || bad_.contains("kind")) return;
    if (needs_period() && !given_.contains("period_ms")) {
      complain("period_ms", "is missing: the time over which the amount is allowed");
    }
    check_limit(limit_, form_,
                [this](std::string_view field, const std::string& what) { complain(field, what); });
  }

  bool needs_period() const {
    return limit_.metric != Metric::concurrency &&
           (limit_.kind == LimitKind::fixed || limit_.kind == LimitKind::sliding ||
            limit_.kind == LimitKind::gcra);
  }

  std::string place_;
  const Form form_;
  std::vector<std::string>& complaints_;
  Limit limit_;
  std::unordered_set<std::string> given_;
  std::unordered_set<std::string> bad_;
};

void read_limits(const Json& value, const std::string& place, Form form, Quota& quota,
                 std::vector<std::string>& complaints) {
  if (!value.is_array()) {
    complaints.push_back(joined(place, "limits") + ": must be an array, not " + shown(value));
    return;
  }
  if (value.size() > limits_field.max) {
    complaints.push_back(joined(place, "limits") + ": " + too_many_limits(value.size()));
    return;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    quota.limits.push_back(LimitReader(i, value[i], place, form, complaints).take());
  }
  check_names_differ(quota.limits, [&](size_t i) {
    complaints.push_back(joined(joined(place, limit_place(i, quota.limits[i].name)), "name") +
                         ": " + std::string{name_is_taken});
  });
}

void read_expired(const Json& value, const std::string& place, Quota& quota,
                  std::vector<std::string>& complaints) {
  if (value == "refund") {
    quota.refund_expired = true;
  } else if (value != "keep") {
    complaints.push_back(joined(place, "expired") + ": must be keep or refund, not " +
                         shown(value));
  }
}

void read_overtakers(const Json& value, const std::string& place, Quota& quota,
                     std::vector<std::string>& complaints) {
  if (const auto number = whole_number(value, overtakers_field)) {
    quota.overtakers_max = static_cast<uint32_t>(*number);
  } else {
    complaints.push_back(joined(place, "overtakers") + ": " +
                         text::whole_number_complaint(value, overtakers_field));
  }
}

std::string no_such_field(std::span<const std::string_view> others) {
  std::vector<std::string_view> fields{others.begin(), others.end()};
  fields.insert(fields.end(), quota_fields.begin(), quota_fields.end());
  return "no such field; there are " + joined_list(fields, "and");
}

}  // namespace

Quota read_quota(const Json& object, const std::string& place,
                 std::span<const std::string_view> others, std::vector<std::string>& complaints,
                 Form form) {
  Quota quota;
  if (!object.is_object()) {
    const std::string start = place.empty() ? "" : place + ": ";
    complaints.push_back(start + "must be an object with \"limits\", not " + shown(object));
    return quota;
  }
  bool has_limits = false;
  for (const auto& [field, value] : object.items()) {
    if (contains(others, field)) continue;
    if (form != Form::written && contains(reported_quota_fields, field)) continue;
    if (!contains(quota_fields, field)) {
      complaints.push_back(joined(place, quoted_excerpt(field)) + ": " + no_such_field(others));
    } else if (value.is_null()) {
      continue;
    } else if (field == "limits") {
      has_limits = true;
      read_limits(value, place, form, quota, complaints);
    } else if (field == "expired") {
      read_expired(value, place, quota, complaints);
    } else {
      read_overtakers(value, place, quota, complaints);
    }
  }
  if (!has_limits) {
    complaints.push_back(joined(place, "limits") +
                         ": is missing; without limits it is \"limits\": []");
  }
  return quota;
}

ParsedQuota parse_quota(std::string_view text, Form form) {
  ParsedQuota parsed;
  const text::ParsedJson json = text::parse_json(text, text::JsonBounds{});
  if (json.complaint.empty()) {
    parsed.quota = read_quota(json.value, "", {}, parsed.complaints, form);
  } else {
    parsed.complaints.push_back(json.complaint);
    parsed.is_json = false;
  }
  if (!parsed.complaints.empty()) parsed.quota = {};
  return parsed;
}

bool has_time_zones(const Quota& quota) {
  return std::ranges::all_of(quota.limits, [](const Limit& limit) {
    return limit.kind != LimitKind::calendar || limiter::find_zone(limit.time_zone) != nullptr;
  });
}

std::string limit_place(size_t index, std::string_view name) {
  const std::string place = "limits[" + std::to_string(index) + "]";
  return name.empty() ? place : place + " (" + quoted_excerpt(std::string{name}) + ")";
}

std::string limits_complaint(size_t count) {
  return "limits: " + too_many_limits(count);
}

std::vector<std::string> check_quota(Quota& quota) {
  std::vector<std::string> complaints;
  if (quota.limits.size() > limits_field.max) {
    return {limits_complaint(quota.limits.size())};
  }
  const auto complain = [&](size_t index, std::string_view field, const std::string& what) {
    complaints.push_back(joined(limit_place(index, quota.limits[index].name), field) + ": " + what);
  };
  for (size_t i = 0; i < quota.limits.size(); ++i) {
    check_limit(quota.limits[i], Form::written,
                [&](std::string_view field, const std::string& what) { complain(i, field, what); });
  }
  check_names_differ(quota.limits,
                     [&](size_t i) { complain(i, "name", std::string{name_is_taken}); });
  if (quota.overtakers_max > overtakers_field.max) {
    complaints.push_back("overtakers: " +
                         text::whole_number_complaint(quota.overtakers_max, overtakers_field));
  }
  return complaints;
}

Json amount_json(Ceiling ceiling, uint64_t amount) {
  if (ceiling == Ceiling::number) return amount;
  return ceiling == Ceiling::unlimited ? "unlimited" : "block";
}

Json limit_json(const Limit& limit) {
  Json json{{"name", limit.name}, {"metric", api::metric_name(limit.metric)}};
  json["amount"] = amount_json(limit.ceiling, limit.amount);
  if (limit.kind == LimitKind::concurrency) return json;
  if (limit.kind != LimitKind::calendar) json["period_ms"] = limit.period_ms;
  json["kind"] = api::kind_name(limit.kind);
  if (limit.kind == LimitKind::calendar) {
    json["period"] = api::unit_name(limit.unit);
    json["time_zone"] = limit.time_zone;
  }
  if (limit.count_cached) json["count_cached"] = true;
  return json;
}

Json quota_json(const Quota& quota) {
  Json json{{"limits", Json::array()}};
  for (const Limit& limit : quota.limits) json["limits"].push_back(limit_json(limit));
  if (quota.refund_expired) json["expired"] = "refund";
  if (quota.overtakers_max > 0) json["overtakers"] = quota.overtakers_max;
  return json;
}

}  // namespace sluice::policy
