// Waiters: their grants, their other outcomes, and the timers behind both.
#include "base/assert.hpp"
#include "shard/key_store.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;

// Timers handled in one call. Those left over are due at once, and until then a key's queue is
// still served before any newcomer.
constexpr uint32_t timers_per_call = 8'192;

}  // namespace

// Waiters get the permits of a new window before any newcomer.
void KeyStore::roll_and_serve(KeyExtra& extra, int64_t now_ms) noexcept {
  if (!extra.window.over(now_ms)) return;
  extra.window.roll(now_ms, extra.policy.window_ms);
  serve(extra, now_ms);
}

void KeyStore::serve(KeyExtra& extra, int64_t now_ms) noexcept {
  while (!extra.queue.empty()) {
    Waiter& head = extra.queue.head();
    if (!extra.window.take(head.cost, extra.policy.max_requests)) return;
    extra.queue.leave(head);
    grant(head, extra, Verdict::approved, now_ms);
  }
}

// Ends every change of an extra: sets its timer, or frees it when nothing needs it.
void KeyStore::schedule_or_free_extra(ExtraIndex index) noexcept {
  KeyExtra& extra = extras_[index];
  if (!extra.queue.empty()) {
    const bool set =
        extra.window_end.scheduled() && extra.window_end.due_ms() == extra.window.end_ms;
    if (!set) timers_.schedule(extra.window_end, extra.window.end_ms);
    return;
  }
  if (extra.window_end.scheduled()) base::TimerWheel::cancel(extra.window_end);
  if (extra.policy != extra.rules_policy || extra.window.denied > WindowCell::denied_max) return;
  const Place place = table_.find(extra.hash);
  ASSERT(place && cell(place).extra() == index);
  drop_extra(place, Window(extra.window));
}

// The waiter has left the queue.
void KeyStore::grant(Waiter& waiter, KeyExtra& extra, Verdict verdict, int64_t now_ms) noexcept {
  ASSERT(grants_.size() < grants_.capacity());
  api::Detail detail;
  Window window = extra.window;
  window.roll(now_ms, extra.policy.window_ms);
  detail.limit = extra.policy.max_requests;
  detail.remaining = window.remaining(detail.limit);
  detail.window_ms = extra.policy.window_ms;
  detail.reset_ms = window.reset_ms(now_ms, extra.policy.window_ms);
  detail.retry_after_ms = retry_after_ms(verdict, detail.reset_ms);
  grants_.push_back({.ticket = waiter.ticket,
                     .origin = waiter.origin,
                     .verdict = verdict,
                     .detail = detail,
                     .refund_claim = {.key_tag = extra.hash.tag,
                                      .window_end_ms = extra.window.end_ms,
                                      .key_position = extra.hash.position,
                                      .cost = waiter.cost}});
  count(verdict);
  waiters_.free(waiter.id);
}

bool KeyStore::withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                        api::ShardId origin) noexcept {
  return take_out(waiter, ticket, origin, true, now);
}

bool KeyStore::abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                       api::ShardId origin) noexcept {
  return take_out(waiter, ticket, origin, false, now);
}

bool KeyStore::take_out(api::WaiterId id, api::Ticket ticket, api::ShardId origin,
                        bool grants_withdrawn, base::Now now) noexcept {
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  fire_due(now_ms);
  const auto waits = [&] {
    return waiters_.holds(id) && waiters_[id].ticket == ticket && waiters_[id].origin == origin;
  };
  if (!waits()) return false;
  refresh(waiters_[id].extra, now_ms);
  if (!waits()) return false;
  Waiter& waiter = waiters_[id];
  const ExtraIndex index = waiter.extra;
  KeyExtra& extra = extras_[index];
  extra.queue.leave(waiter);
  if (grants_withdrawn) {
    grant(waiter, extra, Verdict::withdrawn, now_ms);
  } else {
    waiters_.free(id);
  }
  // The waiters behind it may fit now.
  roll_and_serve(extra, now_ms);
  serve(extra, now_ms);
  schedule_or_free_extra(index);
  return true;
}

void KeyStore::drain(base::Now now) noexcept {
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  fire_due(now_ms);
  for (api::WaiterId id = 0; id < waiters_.index_end(); ++id) {
    if (!waiters_.holds(id)) continue;
    const ExtraIndex index = waiters_[id].extra;
    refresh(index, now_ms);
    if (!waiters_.holds(id)) continue;
    KeyExtra& extra = extras_[index];
    while (!extra.queue.empty()) {
      Waiter& head = extra.queue.head();
      extra.queue.leave(head);
      grant(head, extra, Verdict::draining, now_ms);
    }
    schedule_or_free_extra(index);
  }
}

void KeyStore::run_due(base::Now now) noexcept {
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  fire_due(now_ms);
  refresh_waiting(now_ms);
  handles_.grow_slice();
  if (table_.growing()) {
    table_.grow_slice();
  } else {
    sweep(now_ms);
  }
  match_share_.renew(now.monotonic_ns);
}

int64_t KeyStore::next_due_ns() const noexcept {
  if (refresh_from_ != api::no_waiter) return 0;
  return base::due_ns(timers_.next_due_ms());
}

void KeyStore::fire_due(int64_t now_ms) noexcept {
  timers_.advance(now_ms);
  for (uint32_t count = 0; count < timers_per_call; ++count) {
    const base::Timer* timer = timers_.pop_due();
    if (timer == nullptr) return;
    const auto index = static_cast<uint32_t>(timer->owner);
    if ((timer->owner & waiter_timer) != 0) {
      end_wait(index, now_ms);
    } else {
      end_window(index, now_ms);
    }
  }
}

void KeyStore::end_window(ExtraIndex index, int64_t now_ms) noexcept {
  refresh(index, now_ms);
  if (!extras_.holds(index)) return;
  roll_and_serve(extras_[index], now_ms);
  schedule_or_free_extra(index);
}

void KeyStore::end_wait(api::WaiterId id, int64_t now_ms) noexcept {
  const ExtraIndex index = waiters_[id].extra;
  refresh(index, now_ms);
  if (!waiters_.holds(id)) return;
  Waiter& waiter = waiters_[id];
  KeyExtra& extra = extras_[index];
  // A window that ended no later comes first: it may serve this waiter in time.
  if (extra.window.end_ms <= waiter.deadline.due_ms()) roll_and_serve(extra, now_ms);
  if (waiters_.holds(id)) {
    extra.queue.leave(waiter);
    grant(waiter, extra, Verdict::wait_limit, now_ms);
    // If the window is over, its own timer is due and serves the others.
    if (!extra.window.over(now_ms)) serve(extra, now_ms);
  }
  schedule_or_free_extra(index);
}

}  // namespace sluice::shard
