#include "server/session_runner.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/limits.hpp"

namespace sluice::server {
namespace {

// Timers handled in one turn; the rest is due at once in the next.
constexpr int timers_max = 1'024;

}  // namespace

void SessionRunner::on_event(const io::Event& event) noexcept {
  session::Session* session = sessions_.find(event.socket);
  if (session == nullptr) return;
  if (event.kind == io::EventKind::received) session->on_received(event.bytes);
  if (event.kind == io::EventKind::end_of_stream) session->on_end_of_stream();
  if (event.kind == io::EventKind::hung_up) session->on_hung_up();
  if (event.kind == io::EventKind::failed) session->on_failed();
  if (event.kind == io::EventKind::sent) session->on_sent(event.result, event.untaken_bytes);
}

void SessionRunner::unblock() noexcept {
  if (!std::exchange(context_.room_made, false)) return;
  while (!context_.blocked.empty()) {
    context_.blocked.front().unblock();
    ++statistics_.blocked;
  }
}

void SessionRunner::speak_http2(const session::Session& session,
                                std::unique_ptr<session::Http2Upgrade> upgrade) noexcept {
  changes_.push_back({session.connection().socket(), std::move(upgrade)});
}

// Between the calls of sessions, since one ends here.
void SessionRunner::change_dialects() noexcept {
  for (Change& change : std::exchange(changes_, {})) {
    const session::Session* const session = sessions_.find(change.socket);
    if (session == nullptr || session->ended()) continue;
    sessions_.change_to_http2(change.socket).begin_http2(std::move(change.upgrade));
  }
}

void SessionRunner::resume_ready() noexcept {
  const auto may_go_on = [this] { return !context_.ready.empty() && !context_.work.is_over(); };
  while (may_go_on()) {
    while (may_go_on()) context_.ready.pop().resume();
    decisions_.execute();  // sessions that were held by a decision are ready again
  }
}

void SessionRunner::run_timers() noexcept {
  context_.timers.advance(context_.now_ms());
  for (int fired = 0; fired < timers_max; ++fired) {
    const base::Timer* timer = context_.timers.pop_due();
    if (timer == nullptr) return;
    sessions_.at(static_cast<uint32_t>(timer->owner))->on_timer();
  }
}

void SessionRunner::end_turn() noexcept {
  // Only what is dirty now: a session may mark itself again for the next turn.
  session::Context::DirtyList dirty;
  dirty.swap(context_.dirty);
  while (!dirty.empty()) dirty.front().end_turn();
  waiters_.deliver_grants();  // ended sessions may have freed permits for others, now dirty
}

void SessionRunner::free_departed_handles() noexcept {
  const auto sets =
      std::min<size_t>(context_.departed_handles.size(), limits::turn_handle_sets_freed);
  auto left = static_cast<uint32_t>(sets) * limits::turn_handles_freed;
  while (!context_.departed_handles.empty() && left > 0) {
    session::HandleSet& set = context_.departed_handles.front();
    left -= set.take_out(left, [this](api::Handle handle) { keys_.drop_handle_reference(handle); });
    if (set.count() > 0) return;
    context_.departed_handles.pop_front_and_dispose(std::default_delete<session::HandleSet>());
    left -= std::min(left, 1U);
  }
}

void SessionRunner::begin_drain() noexcept {
  for_each([](session::Session& session) { session.begin_drain(); });
  end_turn();
}

void SessionRunner::end_drain() noexcept {
  for_each([](session::Session& session) { session.end_drain(); });
  end_turn();
}

void SessionRunner::force_close() noexcept {
  for_each([this](session::Session& session) {
    if (session.ended()) return;
    session.close();
    ++statistics_.force_closed;
  });
}

void SessionRunner::close_all() noexcept {
  for_each([](session::Session& session) { session.close(); });
}

}  // namespace sluice::server
