#include "cli/verdict_words.hpp"

namespace sluice::cli {

std::string verdict_sentence(sluicegate::Verdict verdict, bool may_wait) {
  using sluicegate::Verdict;
  switch (verdict) {
    case Verdict::approved:
    case Verdict::queued:
      return "";
    case Verdict::denied:
      return may_wait ? "the key's limit is reached, and its queue is full or the wait too long"
                      : "the key's limit is reached: ask again later, or wait (--wait)";
    case Verdict::table_full:
      return "the server has no room for another key (--max-keys)";
    case Verdict::waiters_full:
      return "too many requests wait (--max-waiters)";
    case Verdict::connection_waiters_full:
      return "too many requests of this connection wait (--max-waiters)";
    case Verdict::key_waiters_full:
      return "too many requests wait for this key (--max-waiters)";
    case Verdict::overloaded:
      return "the server is overloaded: try again later";
    case Verdict::not_allowed:
      return "the server does not let requests set limits (--requests-can-set-rate, "
             "--requests-can-mod-queue, --requests-can-set-window)";
    case Verdict::never_fits:
      return "the cost is above the key's limit: ask for less";
    case Verdict::invalid_key:
      return "the key is empty, or longer than the server allows (--max-key-bytes)";
    case Verdict::wait_limit:
      return "it waited as long as allowed";
    case Verdict::withdrawn:
      return "it was withdrawn from the queue";
    case Verdict::draining:
      return "the server is shutting down: use another server, or try again later";
    case Verdict::handles_full:
      return "the server has no room for another handle (--max-handles)";
    case Verdict::owner_unreachable:
      return "the node that owns the key does not answer (try again later), or is a gocc, which "
             "takes neither a cost other than 1 nor a look, and releases one permit at a time";
    case Verdict::none:
      break;
  }
  return "this program does not know the server's answer: the server is newer";
}

int exit_code(sluicegate::Verdict verdict) noexcept {
  using sluicegate::Verdict;
  switch (verdict) {
    case Verdict::approved:
    case Verdict::queued:
      return 0;
    case Verdict::invalid_key:
    case Verdict::not_allowed:
    case Verdict::draining:
    case Verdict::owner_unreachable:
      return 2;
    default:
      return 1;
  }
}

}  // namespace sluice::cli
