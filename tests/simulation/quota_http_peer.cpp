#include "quota_http_peer.hpp"

#include <utility>

#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

constexpr size_t quota_pipelined_max = 6;

}  // namespace

QuotaHttpPeer::QuotaHttpPeer(World& world)
    : Peer(world, server::http_listener), calls_(world, client_.link_id()) {}

void QuotaHttpPeer::ask() {
  if (asked_.size() >= quota_pipelined_max) return;
  QuotaRestCall call = calls_.draw();
  ++world_.operations;
  trace("asks " + call.text());
  std::string text = call.method + " " + call.target + " HTTP/1.1\r\nHost: localhost\r\n";
  if (!call.body.empty()) text += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  text += "\r\n" + call.body;
  send(std::as_bytes(std::span(text)));
  asked_.push_back({.call = std::move(call), .end = record().asked_bytes});
}

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
  } else if (asked_.empty()) {
    fail("got an answer to nothing");
  } else {
    const Asked asked = std::move(asked_.front());
    asked_.pop_front();
    on_answer(asked.call, status, body, closes);
  }
  return true;
}

void QuotaHttpPeer::on_answer(const QuotaRestCall& call, int status, const std::string& body,
                              bool closes) {
  const std::string wrong =
      calls_.take(call, status, body, {.drains = is_draining(), .any_drains = drains_anywhere()});
  if (!wrong.empty()) return fail(wrong);
  const bool is_drained = QuotaRestCalls::is_drained(status, body);
  if (is_drained && !closes) fail("got no Connection: close from a shard that drains");
  if (closes && !is_drained && !is_draining()) fail("got Connection: close for no reason");
}

// A client that leaves gives up the first request that is open, if that waits; the server reads
// nothing behind it.
void QuotaHttpPeer::check_graceful_end() {
  const bool gave_up =
      was_ended_for(why::peer_left) && !asked_.empty() && calls_.was_queued(asked_.front().call);
  const bool may_lack_answers = record().refused || record().saw_last_answer || gave_up;
  if (open_end() <= record().delivered_at_end && !may_lack_answers) {
    fail("ended with requests unanswered");
  }
}

}  // namespace sluice::simulation
