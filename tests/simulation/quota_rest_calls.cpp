#include "quota_rest_calls.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace sluice::simulation {
namespace {

using Json = nlohmann::json;

std::string target_of(const std::string& subject) {
  std::string target = "/v1/subjects/";
  for (const char c : subject) {
    if (c == '{') {
      target += "%7B";
    } else if (c == '}') {
      target += "%7D";
    } else {
      target += c;
    }
  }
  return target;
}

std::string hex_of(uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", id);
  return text;
}

Json json_of(const api::Limit& limit) {
  Json json{{"name", limit.name}, {"metric", api::metric_name(limit.metric)}};
  json["amount"] = limit.amount;
  if (limit.ceiling == api::Ceiling::unlimited) json["amount"] = "unlimited";
  if (limit.ceiling == api::Ceiling::block) json["amount"] = "block";
  if (limit.kind == api::LimitKind::concurrency) return json;
  json["kind"] = api::kind_name(limit.kind);
  json["period_ms"] = limit.period_ms;
  return json;
}

Json json_of(const api::Quota& quota) {
  Json json{{"limits", Json::array()}};
  for (const api::Limit& limit : quota.limits) json["limits"].push_back(json_of(limit));
  json["expired"] = quota.refund_expired ? "refund" : "keep";
  json["overtakers"] = quota.overtakers_max;
  return json;
}

Json call_of(const std::vector<std::string>& subjects, const api::Amounts& amounts,
             const char* output) {
  return {{"subjects", subjects},
          {"requests", amounts.requests},
          {"input_tokens", amounts.input_tokens},
          {output, amounts.output_tokens}};
}

QuotaRestCall make_call(const std::string& method, const std::string& target,
                        const std::string& body, std::vector<int> statuses,
                        QuotaRestCall::OnAnswer on_answer) {
  return {.method = method,
          .target = target,
          .body = body,
          .statuses = std::move(statuses),
          .on_answer = std::move(on_answer),
          .owner = {}};
}

// Of a quota, or of usage.
bool is_change(const QuotaRestCall& call) {
  return call.method == "PUT" || call.method == "DELETE" || call.target.starts_with("/v1/reset");
}

void note_undurable(World& world, const std::string& code) {
  if (code == "not_durable") world.count(StateEvent::not_durable);
  if (code == "memory_only") world.count(StateEvent::memory_only);
}

}  // namespace

// ------------------------------------------------------------------------------------- asking

QuotaRestCall QuotaRestCalls::draw() {
  const uint64_t dice = world_.random.below(100);
  if (dice < 44) return reserve();
  if (dice < 50) return consume();
  if (dice < 66) return settle();
  if (dice < 73) return cancel();
  if (dice < 77) return extend();
  if (dice < 81) return record();
  if (dice < 84) return check();
  if (dice < 88) return position();
  if (dice < 94) return usage();
  if (dice < 97) return reset();
  return change();
}

QuotaRestCall QuotaRestCalls::reserve() {
  io::Random& random = world_.random;
  const bool may_wait = random.chance(0.65);
  std::vector<std::string> subjects = books_.draw_call();
  api::Amounts amounts = books_.draw_amounts();
  NamedReserve* named = nullptr;
  if (random.chance(0.2)) {
    named = random.chance(0.5) ? books_.draw_named() : nullptr;
    if (named == nullptr) named = &books_.name(subjects, amounts);
    subjects = named->subjects;
    amounts = named->amounts;
    books_.ask_named(*named, now_ns());
  }
  const uint32_t lifetime_ms = named != nullptr ? named_lifetime_ms : books_.draw_lifetime_ms();
  Json json = call_of(subjects, amounts, "max_output_tokens");
  if (named != nullptr) json["id"] = named->client_id;
  if (lifetime_ms != 0) json["lifetime_ms"] = lifetime_ms;
  if (may_wait) json["wait_limit_ms"] = 1 + random.below(400);
  const std::string owner = std::to_string(link_) + "/" + std::to_string(++reserves_);
  json["owner"] = owner;
  QuotaRestCall call{.method = "POST",
                     .target = "/v1/reserve",
                     .body = json.dump(),
                     .owner = owner,
                     .may_wait = may_wait};
  const Reserve reserve{.charge = books_.ask_charge(subjects, amounts),
                        .client_id = named != nullptr ? named->client_id : "",
                        .asked_ns = now_ns(),
                        .lifetime_ms = lifetime_ms};
  call.statuses = {200, 409, 429};
  call.on_answer = [this, reserve](int status, const std::string& body) {
    on_reserved(reserve, status, body);
  };
  return call;
}

// Settles or cancels; a repeat must get the same answer.
QuotaRestCall QuotaRestCalls::end(const std::string& way, uint64_t reservation,
                                  const std::string& body, const std::string& end_key) {
  return make_call("POST", "/v1/" + way, body, {200, 404, 409},
                   [this, reservation, end_key](int status, const std::string& reported) {
                     if (status != 200) return;
                     books_.ended(reservation, now_ns());
                     books_.check_end(reservation, end_key, reported);
                   });
}

QuotaRestCall QuotaRestCalls::settle() {
  const uint64_t reservation = books_.draw_reservation();
  if (reservation == 0) return usage();
  const uint64_t seed = world_.random.chance(0.7) ? reservation : world_.random.next();
  const Tally tally{.tokens = seed % 23 + seed % 29, .requests = 1 + seed % 2};
  books_.ask_end(reservation, tally);
  const Json json{{"reservation", hex_of(reservation)},
                  {"requests", tally.requests},
                  {"input_tokens", seed % 23},
                  {"output_tokens", seed % 29}};
  return end("settle", reservation, json.dump(), "settle");
}

QuotaRestCall QuotaRestCalls::cancel() {
  const uint64_t reservation = books_.draw_reservation();
  if (reservation == 0) return usage();
  const Charge* charge = books_.find(reservation);
  const bool keeps = world_.random.chance(0.3);
  books_.ask_end(reservation, {.requests = keeps ? charge->reserved.requests : 0});
  const Json json{{"reservation", hex_of(reservation)}, {"keep_requests", keeps}};
  return end("cancel", reservation, json.dump(), "cancel");
}

QuotaRestCall QuotaRestCalls::extend() {
  const uint64_t reservation = books_.draw_reservation();
  if (reservation == 0) return usage();
  books_.find(reservation)->open_until_ns = 0;
  const Json json{{"reservation", hex_of(reservation)},
                  {"lifetime_ms", 10 + world_.random.below(300)}};
  return make_call("POST", "/v1/extend", json.dump(), {200, 404, 409},
                   [](int, const std::string&) {});
}

QuotaRestCall QuotaRestCalls::record() {
  return charge("/v1/record", api::QuotaOp::record);
}

// A repeat under an id is charged only if the server has forgotten the id, or denied it before.
QuotaRestCall QuotaRestCalls::charge(const std::string& target, api::QuotaOp op) {
  NamedCharge drawn{
      .client_id = {}, .op = op, .subjects = books_.draw_call(), .amounts = books_.draw_amounts()};
  bool is_repeat = false;
  if (world_.random.chance(0.3)) drawn = books_.draw_named_charge(op, is_repeat);
  const ChargePtr charge = books_.ask_charge(drawn.subjects, drawn.amounts);
  Json json = call_of(drawn.subjects, drawn.amounts, "output_tokens");
  if (!drawn.client_id.empty()) json["id"] = drawn.client_id;
  return make_call("POST", target, json.dump(), {200, 409, 429},
                   [this, charge, is_repeat](int status, const std::string&) {
                     if (status != 200) return books_.denied(*charge);
                     if (!is_repeat) books_.recorded(*charge);
                   });
}

// Of a call that may still wait.
QuotaRestCall QuotaRestCalls::position() {
  const NamedReserve* named = books_.draw_named();
  if (named == nullptr) return usage();
  const std::vector<std::string> subjects = named->subjects;
  const Json json{{"subjects", subjects}, {"id", named->client_id}};
  return make_call("POST", "/v1/position", json.dump(), {200, 404},
                   [this, subjects](int status, const std::string& body) {
                     if (status == 200) check_positions(subjects, body);
                   });
}

// A queue with a quota has the waiter, unless it was served on the way to the next shard.
void QuotaRestCalls::check_positions(const std::vector<std::string>& subjects,
                                     const std::string& body) {
  const Json shown = Json::parse(body).at("subjects");
  bool waits = false;
  for (size_t place = 0; place < subjects.size(); ++place) {
    const uint32_t position = shown.at(place).at("position");
    waits = waits || position > 0;
    if (shown.at(place).at("name") != subjects[place] || position > limits::position_max) {
      world_.failure.report("got a wrong position: " + body);
    }
  }
  if (!waits) world_.failure.report("got no position of a call that waits");
}

// Does not wait: whether one that does still waits is known by its owner.
QuotaRestCall QuotaRestCalls::consume() {
  QuotaRestCall call = charge("/v1/consume", api::QuotaOp::consume);
  call.consumes = true;
  return call;
}

QuotaRestCall QuotaRestCalls::check() {
  const std::vector<std::string> subjects = books_.draw_call();
  const Json json = call_of(subjects, books_.draw_amounts(), "max_output_tokens");
  return make_call("POST", "/v1/check", json.dump(), {200, 429}, [](int, const std::string&) {});
}

QuotaRestCall QuotaRestCalls::usage() {
  const std::string& subject = books_.draw_subject();
  const QuestionPtr question = books_.ask_usage(subject);
  return make_call(
      "GET", target_of(subject), "", {200, 404},
      [this, question](int status, const std::string& body) { on_usage(question, status, body); });
}

QuotaRestCall QuotaRestCalls::change() {
  if (!books_.changes()) return usage();
  const std::string& subject = books_.draw_subject();
  const auto nothing = [](int, const std::string&) {};
  if (world_.random.chance(0.4)) {
    return make_call("DELETE", target_of(subject), "", {200, 204, 404}, nothing);
  }
  return make_call("PUT", target_of(subject), json_of(books_.changed_quota(subject)).dump(), {200},
                   nothing);
}

QuotaRestCall QuotaRestCalls::reset() {
  if (!books_.resets()) return usage();
  const auto nothing = [](int, const std::string&) {};
  if (world_.random.chance(0.3)) {
    return make_call("POST", "/v1/reset-all", "", {200}, nothing);
  }
  const Json json{{"subject", books_.draw_subject()}};
  return make_call("POST", "/v1/reset", json.dump(), {200}, nothing);
}

// ------------------------------------------------------------------------------------ answers

std::string QuotaRestCalls::take(const QuotaRestCall& call, int status, const std::string& body,
                                 const State& state) {
  const bool is_known = status == 503 ? is_refusal(call, code_of(body), state)
                                      : std::ranges::count(call.statuses, status) > 0;
  note_undurable(world_, status == 503 ? code_of(body) : "");
  if (!is_known) return "got " + std::to_string(status) + " " + body + " to " + call.text();
  call.on_answer(status, body);
  return {};
}

bool QuotaRestCalls::is_drained(int status, const std::string& body) {
  return status == 503 && code_of(body) == "draining";
}

std::string QuotaRestCalls::code_of(const std::string& body) {
  return Json::parse(body).at("code");
}

// Reserves that would wait are refused by any shard that drains, all others by their own. That a
// full table is full is checked where it is (QuotaWatch).
bool QuotaRestCalls::is_refusal(const QuotaRestCall& call, const std::string& code,
                                const State& state) const {
  const bool is_reserve = !call.owner.empty();
  const bool makes_subjects = call.method == "PUT" || call.target == "/v1/record";
  const bool asks_admission = is_reserve || call.consumes;
  if (code == "draining")
    return asks_admission && (state.drains || (call.may_wait && state.any_drains));
  if (code == "not_durable" || code == "memory_only") return world_.keeps_state && is_change(call);
  if (code == "subjects_full") return asks_admission || makes_subjects;
  if (code == "reservations_full") return asks_admission || call.target == "/v1/record";
  if (code == "connection_waiters_full") return call.may_wait && state.has_others;
  return (code == "waiters_full" || code == "subject_waiters_full") && call.may_wait;
}

void QuotaRestCalls::on_reserved(const Reserve& asked, int status, const std::string& body) {
  const bool is_named = !asked.client_id.empty();
  if (status != 200) {
    books_.denied(*asked.charge);
    if (is_named) books_.denied_named(asked.client_id, asked.asked_ns);
    return;
  }
  const std::string text = Json::parse(body).at("reservation");
  const uint64_t id = std::stoull(text, nullptr, 16);
  const ChargePtr charge =
      books_.admitted(asked.charge, id, asked.asked_ns, now_ns(), asked.lifetime_ms, false);
  if (is_named) books_.admitted_named(asked.client_id, charge, asked.asked_ns, now_ns());
}

void QuotaRestCalls::on_usage(const QuestionPtr& question, int status, const std::string& body) {
  books_.forget(question);
  if (status != 200) return;
  const Json reported = Json::parse(body);
  for (const Json& limit : reported.at("limits")) {
    books_.check_usage(*question, limit.at("name"), limit.at("used"));
  }
}

}  // namespace sluice::simulation
