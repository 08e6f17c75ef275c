#include "peer/gocc_link.hpp"

#include <algorithm>
#include <utility>

#include "base/time.hpp"
#include "peer/message_entries.hpp"

namespace sluice::peer {

using api::Verdict;

GoccLink::GoccLink(Context& context, net::ConnectionMemory& memory, uint32_t first_place,
                   uint32_t node, std::string authority, PeerTarget& target)
    : context_(context),
      memory_(memory),
      first_place_(first_place),
      node_(node),
      authority_(std::move(authority)),
      target_(target) {}

// --- Its life ------------------------------------------------------------------------------

void GoccLink::connect(const io::PeerAddress& address) noexcept {
  address_ = address;
  connections_[0] =
      std::make_unique<GoccConnection>(context_, memory_, first_place_, authority_, *this);
  connections_[0]->connect(address_);
}

void GoccLink::go_on() noexcept {
  for (std::unique_ptr<GoccConnection>& connection : connections_) {
    if (!connection || connection->state() != GoccConnection::State::closed) continue;
    if (connection == connections_[0]) lose(connection->why_lost());
    connection.reset();
  }
  if (is_lost_ || connections_[0]->state() != GoccConnection::State::open) return;
  if (!std::exchange(is_open_, true)) target_.connect(*this);
  was_open_ = true;
  send_requests();  // another connection may be there now
  open_connection();
}

void GoccLink::lose(std::string_view why) noexcept {
  if (std::exchange(is_lost_, true)) return;
  why_lost_ = why;
  unsent_.clear();
  for (const auto& connection : connections_) {
    if (connection) connection->lose(why);
  }
  if (is_open_) target_.on_lost(outgoings_);
  outgoings_.clear();
  is_open_ = false;
}

bool GoccLink::is_closed() const noexcept {
  return is_lost_ && std::ranges::all_of(connections_, [](const auto& one) { return !one; });
}

void GoccLink::on_tick() noexcept {
  for (const auto& connection : connections_) {
    if (connection) connection->on_tick();
  }
  const bool is_lost = connections_[0] && connections_[0]->state() == GoccConnection::State::lost;
  if (is_lost) return lose(connections_[0]->why_lost());
  send_requests();  // a connection's output may have room again
}

// --- Requests ------------------------------------------------------------------------------

void GoccLink::send(Outgoing& outgoing) noexcept {
  outgoings_.push_back(&outgoing);
  for_each_entry(outgoing.message, 0, outgoing.message.entries_count(),
                 [&](uint32_t place, const api::Entry& entry) {
                   unsent_.push_back({.outgoing = &outgoing, .place = place, .entry = entry});
                 });
  send_requests();
}

uint32_t GoccLink::take_back(Outgoing& outgoing) noexcept {
  const auto count = static_cast<uint32_t>(
      std::erase_if(unsent_, [&](const Unsent& unsent) { return unsent.outgoing == &outgoing; }));
  if (outgoing.unanswered_count == count) std::erase(outgoings_, &outgoing);
  return count;
}

void GoccLink::send_requests() noexcept {
  while (!unsent_.empty()) {
    GoccConnection* const connection = connection_for_request();
    if (connection == nullptr) return;
    const Unsent unsent = unsent_.front();
    unsent_.pop_front();
    ask(*connection, unsent);
  }
}

// Another connection is opened when all that are there have as many streams as gocc allows.
GoccConnection* GoccLink::connection_for_request() noexcept {
  bool is_connecting = false;
  for (const auto& connection : connections_) {
    if (!connection) continue;
    if (connection->takes_requests()) return connection.get();
    is_connecting |= connection->is_beginning();
  }
  const bool has_place = std::ranges::any_of(connections_, [](const auto& one) { return !one; });
  if (is_connecting || !has_place) return nullptr;
  wants_connection_ = true;
  context_.has_changed = true;
  return nullptr;
}

// Not while events are handled: a socket that has ended may be free for another connection before
// its last event is.
void GoccLink::open_connection() noexcept {
  const auto free = std::ranges::find_if(connections_, [](const auto& one) { return !one; });
  if (!std::exchange(wants_connection_, false) || free == connections_.end()) return;
  const auto place = static_cast<uint32_t>(free - connections_.begin());
  *free =
      std::make_unique<GoccConnection>(context_, memory_, first_place_ + place, authority_, *this);
  (*free)->connect(address_);
}

void GoccLink::ask(GoccConnection& connection, const Unsent& unsent) noexcept {
  const api::Entry& entry = unsent.entry;
  const auto request = gocc_request(entry);
  if (!request) {
    return answer(*unsent.outgoing, unsent.place, Verdict::owner_unreachable,
                  {.unfit_owner_plus_one = static_cast<uint16_t>(node_ + 1)});
  }
  const bool may_wait = entry.ticket != api::no_ticket && entry.op == api::Op::acquire;
  if (!may_wait) {
    return connection.ask(*request,
                          {.outgoing = unsent.outgoing, .place = unsent.place, .entry = entry});
  }
  if (waiting_count_ == waiting_max) {
    return answer(*unsent.outgoing, unsent.place, Verdict::waiters_full, {});
  }
  const api::WaiterId waiter = context_.waiters.take(RemotePlace{.frame_id = ++waiters_count_},
                                                     entry.ticket, RemoteWaiter::Of::entry);
  if (waiter == api::no_waiter) {
    return answer(*unsent.outgoing, unsent.place, Verdict::owner_unreachable, {});
  }
  ++waiting_count_;
  const int64_t due_ms =
      entry.wait_ms_max == 0 ? base::never_ms : context_.now_ms + entry.wait_ms_max;
  connection.ask(*request, {.waiter = waiter, .due_ms = due_ms});
  unsent.outgoing->message.waiters(unsent.place, 1)[0] = waiter;
  answer(*unsent.outgoing, unsent.place, Verdict::queued, {});
}

void GoccLink::withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept {
  if (!context_.waiters.holds(waiter) || context_.waiters[waiter].ticket != ticket) return;
  for (const auto& connection : connections_) {
    if (connection && connection->cancel(waiter)) return;
  }
}

// --- Answers -------------------------------------------------------------------------------

void GoccLink::on_answer(const Asked& asked, End end, const GoccAnswer& reply) noexcept {
  if (asked.waiter != api::no_waiter) return on_outcome(asked, end, reply);
  const bool may_be_asked_again = !is_lost_ && !asked.outgoing->is_given_up();
  if (end == End::not_processed && may_be_asked_again) {
    unsent_.push_front({.outgoing = asked.outgoing, .place = asked.place, .entry = asked.entry});
  } else if (end != End::answered) {
    fail(asked);
  } else {
    const Verdict verdict = verdict_of(reply);
    answer(*asked.outgoing, asked.place,
           verdict == Verdict::denied ? denial_of(asked.entry) : verdict,
           {.request_id = request_id_of(reply)});
  }
  send_requests();
}

void GoccLink::on_outcome(const Asked& asked, End end, const GoccAnswer& reply) noexcept {
  Verdict verdict = verdict_of(reply);
  if (end != End::answered) {
    verdict = asked.is_withdrawn                ? Verdict::withdrawn
              : context_.now_ms >= asked.due_ms ? Verdict::wait_limit
                                                : Verdict::owner_unreachable;
  }
  context_.grants.push_back({.ticket = context_.waiters[asked.waiter].ticket,
                             .verdict = verdict,
                             .detail = {.request_id = request_id_of(reply)}});
  context_.waiters.free(asked.waiter);
  --waiting_count_;
  if (!is_lost_) send_requests();
}

void GoccLink::answer(Outgoing& outgoing, uint32_t entry, Verdict verdict,
                      const api::Detail& detail) noexcept {
  if (!outgoing.is_given_up()) {
    outgoing.message.verdicts(entry, 1)[0] = verdict;
    outgoing.message.details(entry, 1)[0] = detail;
  }
  finish(outgoing);
}

void GoccLink::fail(const Asked& asked) noexcept {
  Outgoing& outgoing = *asked.outgoing;
  if (!outgoing.is_given_up()) target_.answer_by_policy(outgoing, asked.place, asked.entry.op);
  finish(outgoing);
}

// One more entry has its answer.
void GoccLink::finish(Outgoing& outgoing) noexcept {
  if (outgoing.unanswered_count == 1) std::erase(outgoings_, &outgoing);
  target_.on_answers(outgoing, 1);
}

}  // namespace sluice::peer
