#include "quota_http_peer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

using Json = nlohmann::json;

constexpr size_t quota_pipelined_max = 6;

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

}  // namespace

QuotaHttpPeer::QuotaHttpPeer(World& world)
    : Peer(world, server::http_listener), books_(*world.books) {}

// ------------------------------------------------------------------------------------- asking

void QuotaHttpPeer::ask() {
  if (asked_.size() >= quota_pipelined_max) return;
  const uint64_t dice = world_.random.below(100);
  if (dice < 45) return ask_reserve();
  if (dice < 65) return ask_settle();
  if (dice < 73) return ask_cancel();
  if (dice < 77) return ask_extend();
  if (dice < 81) return ask_record();
  if (dice < 84) return ask_check();
  if (dice < 94) return ask_usage();
  if (dice < 97) return ask_reset();
  ask_change();
}

void QuotaHttpPeer::send_request(const std::string& method, const std::string& target,
                                 const std::string& body, std::vector<int> statuses,
                                 OnAnswer on_answer) {
  ++world_.operations;
  asked_.push_back({.what = method + " " + target + " " + body,
                    .statuses = std::move(statuses),
                    .on_answer = std::move(on_answer)});
  trace("asks " + asked_.back().what);
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n";
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n" + body;
  send(std::as_bytes(std::span(text)));
  asked_.back().end = record().asked_bytes;
}

void QuotaHttpPeer::ask_reserve() {
  io::Random& random = world_.random;
  bool apart = false;
  std::vector<std::string> subjects = books_.draw_call(apart);
  api::Amounts amounts = books_.draw_amounts();
  NamedReserve* named = nullptr;
  if (!apart && random.chance(0.2)) {
    named = random.chance(0.5) ? books_.draw_named() : nullptr;
    if (named == nullptr) named = &books_.name(subjects, amounts);
    books_.ask_named(*named, now_ns());
    subjects = named->subjects;
    amounts = named->amounts;
  }
  const uint32_t lifetime_ms = named != nullptr ? named_lifetime_ms : books_.draw_lifetime_ms();
  Json json = call_of(subjects, amounts, "max_output_tokens");
  if (named != nullptr) json["id"] = named->client_id;
  if (lifetime_ms != 0) json["lifetime_ms"] = lifetime_ms;
  const bool may_wait = random.chance(0.5);
  if (may_wait) json["wait_limit_ms"] = 1 + random.below(400);
  const std::string owner = std::to_string(client_.link_id()) + "/" + std::to_string(++reserves_);
  json["owner"] = owner;
  const auto note = [&] {
    asked_.back().owner = owner;
    asked_.back().may_wait = may_wait;
  };
  if (apart) {
    send_request("POST", "/v1/reserve", json.dump(), {400}, [](int, const std::string&) {});
    return note();
  }
  const Reserve reserve{.charge = books_.ask_charge(subjects, amounts),
                        .client_id = named != nullptr ? named->client_id : "",
                        .asked_ns = now_ns(),
                        .lifetime_ms = lifetime_ms};
  send_request(
      "POST", "/v1/reserve", json.dump(), {200, 409, 429},
      [this, reserve](int status, const std::string& body) { on_reserved(reserve, status, body); });
  note();
}

// Settles or cancels; a repeat must get the same answer.
void QuotaHttpPeer::end(const std::string& way, uint64_t reservation, const std::string& body,
                        const std::string& end_key) {
  send_request("POST", "/v1/" + way, body, {200, 404, 409},
               [this, reservation, end_key](int status, const std::string& reported) {
                 if (status != 200) return;
                 books_.ended(reservation);
                 books_.check_end(reservation, end_key, reported);
               });
}

void QuotaHttpPeer::ask_settle() {
  const uint64_t reservation = books_.draw_reservation();
  if (reservation == 0) return ask_usage();
  const uint64_t seed = world_.random.chance(0.7) ? reservation : world_.random.next();
  const Tally tally{.tokens = seed % 23 + seed % 29, .requests = 1 + seed % 2};
  books_.ask_end(reservation, tally);
  const Json json{{"reservation", hex_of(reservation)},
                  {"requests", tally.requests},
                  {"input_tokens", seed % 23},
                  {"output_tokens", seed % 29}};
  end("settle", reservation, json.dump(), "settle");
}

void QuotaHttpPeer::ask_cancel() {
  const uint64_t reservation = books_.draw_reservation();
  if (reservation == 0) return ask_usage();
  const Charge* charge = books_.find(reservation);
  const bool keeps = world_.random.chance(0.3);
  books_.ask_end(reservation, {.requests = keeps ? charge->reserved.requests : 0});
  const Json json{{"reservation", hex_of(reservation)}, {"keep_requests", keeps}};
  end("cancel", reservation, json.dump(), "cancel");
}

void QuotaHttpPeer::ask_extend() {
  const uint64_t reservation = books_.draw_reservation();
  if (reservation == 0) return ask_usage();
  books_.find(reservation)->open_until_ns = 0;
  const Json json{{"reservation", hex_of(reservation)},
                  {"lifetime_ms", 10 + world_.random.below(300)}};
  send_request("POST", "/v1/extend", json.dump(), {200, 404, 409}, [](int, const std::string&) {});
}

void QuotaHttpPeer::ask_record() {
  bool apart = false;
  const std::vector<std::string> subjects = books_.draw_call(apart);
  if (apart) return ask_usage();
  const api::Amounts amounts = books_.draw_amounts();
  const ChargePtr charge = books_.ask_charge(subjects, amounts);
  send_request("POST", "/v1/record", call_of(subjects, amounts, "output_tokens").dump(), {200, 429},
               [this, charge](int status, const std::string&) {
                 status == 200 ? books_.recorded(*charge) : books_.denied(*charge);
               });
}

void QuotaHttpPeer::ask_check() {
  bool apart = false;
  const std::vector<std::string> subjects = books_.draw_call(apart);
  if (apart) return ask_usage();
  const Json json = call_of(subjects, books_.draw_amounts(), "max_output_tokens");
  send_request("POST", "/v1/check", json.dump(), {200, 429}, [](int, const std::string&) {});
}

void QuotaHttpPeer::ask_usage() {
  const std::string& subject = books_.draw_subject();
  const QuestionPtr question = books_.ask_usage(subject);
  send_request(
      "GET", target_of(subject), "", {200, 404},
      [this, question](int status, const std::string& body) { on_usage(question, status, body); });
}

void QuotaHttpPeer::ask_change() {
  if (!books_.changes()) return ask_usage();
  const std::string& subject = books_.draw_subject();
  const auto nothing = [](int, const std::string&) {};
  if (world_.random.chance(0.4)) {
    return send_request("DELETE", target_of(subject), "", {200, 204, 404}, nothing);
  }
  send_request("PUT", target_of(subject), json_of(books_.changed_quota(subject)).dump(), {200},
               nothing);
}

void QuotaHttpPeer::ask_reset() {
  if (!books_.resets()) return ask_usage();
  const auto nothing = [](int, const std::string&) {};
  if (world_.random.chance(0.3)) {
    return send_request("POST", "/v1/reset-all", "", {200}, nothing);
  }
  const Json json{{"subject", books_.draw_subject()}};
  send_request("POST", "/v1/reset", json.dump(), {200}, nothing);
}

// ------------------------------------------------------------------------------------ answers

void QuotaHttpPeer::take_answers() {
  while (!over() && take_answer()) {
  }
}

bool QuotaHttpPeer::take_answer() {
  const std::string text(reinterpret_cast<const char*>(inbox_.data()), inbox_.size());
  const size_t head_end = text.find("\r\n\r\n");
  if (head_end == std::string::npos) return false;
  const std::string head = text.substr(0, head_end);
  const size_t length = head.find("Content-Length: ");
  const size_t bytes =
      length == std::string::npos ? 0 : std::stoul(head.substr(length + sizeof "Content-Length:"));
  if (text.size() < head_end + 4 + bytes) return false;
  const std::string body = text.substr(head_end + 4, bytes);
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<ptrdiff_t>(head_end + 4 + bytes));
  const int status = std::stoi(head.substr(9, 3));
  trace("got " + std::to_string(status) + " " + body);
  const bool closes = head.find("Connection: close") != std::string::npos;
  record().saw_last_answer |= closes;
  if (record().refused) {
    if (status != 503) fail("was refused with " + std::to_string(status));
    return true;
  }
  if (asked_.empty()) {
    fail("got an answer to nothing");
    return true;
  }
  const Asked asked = std::move(asked_.front());
  asked_.pop_front();
  if (status == 503) {
    check_refusal(asked, body, closes);
  } else if (std::ranges::count(asked.statuses, status) == 0) {
    fail("got " + std::to_string(status) + " " + body + " to " + asked.what);
  } else if (closes && !is_draining()) {
    fail("got Connection: close for no reason");
  }
  if (!over()) asked.on_answer(status, body);
  return true;
}

// Reserves that would wait are refused by any shard that drains, all others by their own. That a
// full table is full is checked where it is (QuotaWatch).
void QuotaHttpPeer::check_refusal(const Asked& asked, const std::string& body, bool closes) {
  const std::string code = Json::parse(body).at("code");
  const bool is_reserve = !asked.owner.empty();
  const bool makes_subjects =
      asked.what.starts_with("PUT") || asked.what.starts_with("POST /v1/record");
  const bool is_drained = code == "draining";
  const bool is_known = is_drained
                            ? is_reserve && (is_draining() || (asked.may_wait && drains_anywhere()))
                        : code == "subjects_full"     ? is_reserve || makes_subjects
                        : code == "reservations_full" ? is_reserve
                        : code == "waiters_full" || code == "subject_waiters_full" ? asked.may_wait
                                                                                   : false;
  if (!is_known) return fail("got " + body + " to " + asked.what);
  if (is_drained && !closes) fail("got no Connection: close from a shard that drains");
  if (closes && !is_drained && !is_draining()) fail("got Connection: close for no reason");
}

void QuotaHttpPeer::on_reserved(const Reserve& asked, int status, const std::string& body) {
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

void QuotaHttpPeer::on_usage(const QuestionPtr& question, int status, const std::string& body) {
  books_.forget(question);
  if (status != 200) return;
  const Json reported = Json::parse(body);
  for (const Json& limit : reported.at("limits")) {
    books_.check_usage(*question, limit.at("name"), limit.at("used"));
  }
}

// A client that leaves gives up the first request that is open, if that waits; the server reads
// nothing behind it.
void QuotaHttpPeer::check_graceful_end() {
  const bool gave_up =
      was_ended_for(why::peer_left) && !asked_.empty() && books_.was_queued(asked_.front().owner);
  const bool may_lack_answers = record().refused || record().saw_last_answer || gave_up;
  if (open_end() <= record().delivered_at_end && !may_lack_answers) {
    fail("ended with requests unanswered");
  }
}

}  // namespace sluice::simulation
