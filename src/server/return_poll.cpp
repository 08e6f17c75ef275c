#include "server/return_poll.hpp"

namespace sluice::server {

bool ReturnPoll::finds_work() noexcept {
  const route::LentCounts& lent = mailboxes_.lent();
  if (poll_ns_ == 0 || lent.messages == 0 || lent.entries > polled_entries_max) return false;
  if (skips_left_ > 0) {
    --skips_left_;
    return false;
  }
  const int64_t end_ns = io_.pause() + poll_ns_;
  do {
    // An Io with sends of this turn is not quiet: they leave with the next poll().
    if (!io_.is_quiet() || mailboxes_.has_messages()) return true;
  } while (io_.pause() < end_ns);
  skips_left_ = skips_after_vain_poll;
  return false;
}

}  // namespace sluice::server
