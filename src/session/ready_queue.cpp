#include "session/ready_queue.hpp"

#include "base/assert.hpp"
#include "session/session.hpp"

namespace sluice::session {

ReadyQueue::ReadyQueue() = default;
ReadyQueue::~ReadyQueue() = default;

void ReadyQueue::push(Session& session, uint64_t wanted) noexcept {
  ReadyPlace& place = session;
  place.served_ = std::max(place.served_, popped_);
  place.rank_ = place.served_ + wanted;
  sessions_.insert(session);
}

Session& ReadyQueue::pop() noexcept {
  ASSERT(!sessions_.empty());
  Session& session = *sessions_.begin();
  const ReadyPlace& place = session;
  popped_ = std::max(popped_, place.served_);
  sessions_.erase(sessions_.begin());
  return session;
}

bool ReadyQueue::is_next(const Session& session) const noexcept {
  return !sessions_.empty() && &*sessions_.begin() == &session;
}

}  // namespace sluice::session
