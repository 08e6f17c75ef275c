#include "http_peer.hpp"

#include <algorithm>

#include "rest_answers.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

constexpr size_t pipelined_max = 16;
constexpr size_t padding_bytes = 4'000;  // of a greedy client's requests

}  // namespace

HttpPeer::HttpPeer(World& world, bool is_bystander)
    : Peer(world, server::http_listener, is_bystander) {
  world.oracle.watch_order(client_.link_id());
}

// ------------------------------------------------------------------------------------- asking

void HttpPeer::ask() {
  if (sent_last_ || asked_.size() >= pipelined_max) return;
  const uint64_t dice = world_.random.below(is_bystander_ ? 85 : 100);
  if (dice < 75) return ask_acquire();
  if (dice < 85) return ask_release();
  if (dice < 99) return ask_other();
  ask_wrong();
}

void HttpPeer::send_request(const std::string& method, const std::string& target, Asked asked) {
  io::Random& random = world_.random;
  ++world_.operations;
  // With HTTP/1.0 the answer to /debug ends with the connection, and has no other end.
  const bool old = target != "/debug" && random.chance(0.01);
  asked.last = old || random.chance(0.01);
  std::string text = method + " " + target + (old ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
  text += "Host: localhost\r\n";
  if (greedy_) text += "Padding: " + std::string(padding_bytes, 'p') + "\r\n";
  if (asked.json) text += "Accept: application/json\r\n";
  if (asked.last && !old) text += "Connection: close\r\n";
  if (method == "POST" && random.chance(0.3)) {
    asked.continues = !old && random.chance(0.3);
    if (asked.continues) text += "Expect: 100-continue\r\n";
    const bool chunked = !old && random.chance(0.5);
    text += chunked ? "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                    : "Content-Length: 5\r\n\r\nhello";
  } else {
    text += "\r\n";
  }
  sent_last_ = asked.last;
  if (asked.last) end_with_next_request();
  trace("asks " + method + " " + target);
  send_text(text, asked);
  asked_.push_back(std::move(asked));
}

void HttpPeer::send_text(std::string_view text, Asked& asked) {
  const size_t head_bytes = text.find("\r\n\r\n") + 4;
  asked.head_end = record().asked_bytes + head_bytes;
  send(std::as_bytes(std::span(text)), head_bytes);
  asked.end = record().asked_bytes;
}

void HttpPeer::ask_acquire() {
  io::Random& random = world_.random;
  const AskedEntry entry = random_acquire(true);
  const std::string target = acquire_target(world_, entry);
  if (is_forbidden(world_, entry)) return send_request("GET", target, {.status = 403, .key = {}});
  send_request(random.chance(0.5) ? "GET" : "POST", target,
               {.kind = entry.cost == 0 ? Kind::look : Kind::acquire,
                .key = entry.key,
                .json = random.chance(0.1)});
}

void HttpPeer::ask_release() {
  const AskedEntry entry = random_entry(false);
  send_request("DELETE", release_target(world_, entry), {.kind = Kind::release, .key = entry.key});
}

void HttpPeer::ask_other() {
  switch (world_.random.below(12)) {
    case 9:
      return send_request("GET", "/debug", {.status = 200, .key = {}, .walks = true});
    case 10:
      return send_request("GET", "/debug/" + percent_encoded(random_key()),
                          {.kind = Kind::shown, .key = {}});
    case 11:
      return send_request("GET", "/top?keys=5", {.status = 200, .key = {}});
    case 0:
      return send_request("GET", "/healthz", {.kind = Kind::health, .key = {}});
    case 1:
      return send_request("GET", "/nowhere", {.status = 404, .key = {}});
    case 2:
      return send_request("PUT", "/rate/x", {.status = 405, .key = {}});
    case 3:
      return send_request("OPTIONS", "/rate/x", {.status = 204, .key = {}, .head = true});
    case 4:
      return send_request("HEAD", "/rate/x", {.status = 405, .key = {}, .head = true});
    case 5:
      return send_request("GET", "/rate/x?cost=-1", {.status = 400, .key = {}});
    case 6:
      return send_request("GET", "/metrics", {.status = 200, .key = {}});
    case 7:
      return send_request("GET", "/debug/no-such-key", {.status = 404, .key = {}});
    default:
      return send_request("GET", "/rate/x?maxRequests=many", {.status = 400, .key = {}});
  }
}

// A request that cannot be parsed is answered once, and ends the connection.
void HttpPeer::ask_wrong() {
  static constexpr std::array<std::string_view, 4> wrong = {
      "GET /rate/x HTTP/1.1\r\n\r\n",  // no Host
      "GET /rate/x HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n",
      "POST /rate/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "nonsense\r\n\r\n"};
  ++world_.operations;
  sent_last_ = true;
  end_with_next_request();
  Asked asked{.status = 400, .key = {}, .last = true};
  send_text(wrong[world_.random.below(wrong.size())], asked);
  asked_.push_back(std::move(asked));
}

// ------------------------------------------------------------------------------------ answers

void HttpPeer::take_answers() {
  while (!over() && take_response()) {
  }
}

bool HttpPeer::take_response() {
  const std::string text(reinterpret_cast<const char*>(inbox_.data()), inbox_.size());
  const size_t head_end = text.find("\r\n\r\n");
  if (head_end == std::string::npos) return false;
  RestAnswer response;
  response.status = static_cast<int>(number_in(text.substr(8, 5)));
  size_t line = text.find("\r\n") + 2;
  while (line < head_end + 2) {
    const size_t end = text.find("\r\n", line);
    const size_t colon = text.find(": ", line);
    std::string name = text.substr(line, colon - line);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = text.substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  size_t end = head_end + 4;
  const bool interim = response.status == 100;
  const bool bodiless = interim || (!asked_.empty() && asked_.front().head &&
                                    asked_.front().status == response.status);
  if (!bodiless && !read_body(text, head_end + 4, response, end)) return false;
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<ptrdiff_t>(end));
  if (!interim) {
    on_response(response);
  } else if (asked_.empty() || !asked_.front().continues) {
    fail("got `100 Continue` for no open request");
  }
  return true;
}

bool HttpPeer::read_body(const std::string& text, size_t start, RestAnswer& response,
                         size_t& end) const {
  if (!response.headers.contains("transfer-encoding")) {
    const size_t bytes = number_in(response.headers["content-length"]);
    if (text.size() < start + bytes) return false;
    response.body = text.substr(start, bytes);
    end = start + bytes;
    return true;
  }
  while (true) {
    const size_t line_end = text.find("\r\n", start);
    if (line_end == std::string::npos) return false;
    const size_t bytes = std::stoul(text.substr(start, line_end - start), nullptr, 16);
    if (text.size() < line_end + 2 + bytes + 2) return false;
    response.body += text.substr(line_end + 2, bytes);
    start = line_end + 2 + bytes + 2;
    end = start;
    if (bytes == 0) return true;
  }
}

void HttpPeer::on_response(const RestAnswer& response) {
  trace("got " + std::to_string(response.status) + " " + response.body.substr(0, 40));
  const bool closes =
      response.headers.contains("connection") && response.headers.at("connection") == "close";
  if (record().refused) {
    record().saw_last_answer |= closes;
    if (response.status == 503 && response.body.find("--max-connections") != std::string::npos) {
      return;
    }
    return fail("was refused with status " + std::to_string(response.status));
  }
  if (asked_.empty()) return fail("got an answer to nothing");
  const Asked asked = asked_.front();
  asked_.pop_front();
  record().saw_last_answer |= closes || asked.last;
  check_closing(asked, response, closes);
  const bool known =
      asked.kind == Kind::shown && (response.status == 200 || response.status == 404);
  const bool unready = asked.kind == Kind::health && is_draining() && response.status == 503;
  if (asked.kind == Kind::health && is_behind_drain(asked) && !unready) {
    return fail("was answered as healthy by a shard that drains");
  }
  if (asked.kind == Kind::acquire || asked.kind == Kind::look || asked.kind == Kind::release) {
    on_decided(asked, response);
  } else if (response.status != asked.status && !unready && !known && !is_busy(asked, response)) {
    fail("got status " + std::to_string(response.status) + " instead of " +
         std::to_string(asked.status));
  }
}

bool HttpPeer::is_busy(const Asked& asked, const RestAnswer& response) const {
  return (world_.few_tasks || asked.walks) && asked.kind != Kind::health &&
         response.status == 503 &&
         (asked.head || response.body.starts_with("too many shard queries"));
}

// A shard that drains ends each connection behind its answer. Another shard that drains ends it
// when it has refused a waiter.
void HttpPeer::check_closing(const Asked& asked, const RestAnswer& response, bool closes) {
  const bool may_be_drained = asked.kind == Kind::acquire && response.status == 503 &&
                              !decided().empty() &&
                              verdict_of(decided().front().entries[0]) == api::Verdict::draining;
  if (closes && !asked.last && !is_draining() && !may_be_drained) {
    fail("got Connection: close for no reason");
  }
  if (!closes && (is_behind_drain(asked) || may_be_drained)) {
    fail("got no Connection: close from a shard that drains");
  }
}

void HttpPeer::on_decided(const Asked& asked, const RestAnswer& response) {
  const api::Op op = asked.kind == Kind::look      ? api::Op::look
                     : asked.kind == Kind::acquire ? api::Op::acquire
                                                   : api::Op::release;
  const bool was_decided = !decided().empty() && decided().front().entries[0].op == op;
  if (!was_decided) {
    // While draining, the shard decides no acquire of its connections any more.
    const bool is_refusal = is_draining() && asked.kind == Kind::acquire;
    if (!is_refusal || response.status != 503) fail("got an answer without a decision");
    return;
  }
  if (is_behind_drain(asked) && asked.kind == Kind::acquire) {
    return fail("got a decision of a shard that drains");
  }
  const DecidedEntry entry = decided().front().entries[0];
  decided().pop_front();
  if (entry.key != asked.key) return fail("got the answer to another request");
  const std::string wrong = wrong_in(world_.oracle, entry, response, asked.json);
  if (!wrong.empty()) fail(wrong);
}

bool HttpPeer::has_waiter() {
  if (decided().empty()) return false;
  const DecidedEntry& entry = decided().front().entries[0];
  return entry.verdict == api::Verdict::queued && entry.outcome == api::Verdict::none;
}

// Every decision was answered, except that of a waiter that the half-close removed: the first
// request that is open, because the server reads nothing behind it.
void HttpPeer::check_graceful_end() {
  const bool gave_up = was_ended_for(why::peer_left) && decided().size() == 1 &&
                       decided().front().entries[0].verdict == api::Verdict::queued;
  if (!decided().empty() && !gave_up) return fail("ended without an answer that was decided");
  const bool may_lack_answers = record().refused || record().saw_last_answer || gave_up;
  if (open_end() <= record().delivered_at_end && !may_lack_answers) {
    fail("ended with requests unanswered");
  }
}

}  // namespace sluice::simulation
