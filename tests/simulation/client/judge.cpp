#include "judge.hpp"

#include <algorithm>

namespace sluicegate::simulation {
namespace {

using namespace std::chrono_literals;

constexpr auto tick = 10ms;  // the deadlines of calls with callbacks are that coarse

class Judge {
 public:
  explicit Judge(const Evidence& evidence) : evidence_{evidence} {}

  std::vector<std::string> run() {
    for (const std::string& each : evidence_.ledger.complaints) {
      complaints_.push_back("the client sent " + each);
    }
    note_latest_begins();
    for (const MadeCall& call : evidence_.calls) judge(call);
    return std::move(complaints_);
  }

 private:
  using Stories = std::vector<std::shared_ptr<Asked>>;

  void note_latest_begins() {
    for (const MadeCall& call : evidence_.calls) {
      for (const std::string& entry : call.entries) {
        for (const auto& asked : stories(entry)) {
          Time& latest = latest_begins_[asked->connection];
          latest = std::max(latest, call.begin);
        }
      }
    }
  }
  // Whether the server must have received what the client had to send at that time: frames keep
  // their order, so it has when a later call reached it on the same connection.
  bool must_have_reached(const Asked& asked, Time time) const {
    return evidence_.connected.contains(asked.connection) ||
           (evidence_.has_exact_clock && latest_begins_.at(asked.connection) > time);
  }

  // When the client could have the final word of an entry; nothing if its connection broke before.
  std::optional<Time> arrival(const Asked& asked) const {
    const Reply* word = asked.final_word();
    if (word == nullptr || !word->arrived) return std::nullopt;
    const auto ended = end_of(asked);
    if (ended && *ended < *word->arrived) return std::nullopt;
    return word->arrived;
  }
  std::optional<Time> end_of(const Asked& asked) const {
    return evidence_.ledger.connections.at(asked.connection).ended;
  }
  const Stories& stories(const std::string& name) const {
    static const Stories none;
    const auto found = evidence_.ledger.asked.find(name);
    return found == evidence_.ledger.asked.end() ? none : found->second;
  }

  static std::string text_of(Clock::duration length) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(length).count();
    return std::to_string(us) + " us";
  }

  // With the story of each entry, all times counted from the begin of the call.
  void complain(const MadeCall& call, const std::string& what) {
    std::string text = call.kind + ": " + what;
    if (call.end) text += "\n  outcome after " + text_of(*call.end - call.begin);
    text += ", failure " + std::string{name(call.result.failure)} + ", " +
            std::to_string(call.result.failed) + " failed, codes";
    for (const uint8_t code : call.result.codes) text += " " + std::to_string(code);
    if (call.cancelled) text += "\n  cancelled after " + text_of(*call.cancelled - call.begin);
    if (call.patience) text += "\n  patience " + text_of(*call.patience);
    for (const std::string& entry : call.entries) {
      for (const auto& asked : stories(entry)) {
        text += "\n  " + entry + " on connection " + std::to_string(asked->connection) +
                ", frame " + std::to_string(asked->frame);
        for (const Reply& reply : asked->replies) {
          text += (reply.is_refusal ? ": error " : ": code ") + std::to_string(reply.code);
          if (reply.arrived) text += " after " + text_of(*reply.arrived - call.begin);
        }
        if (const auto ended = end_of(*asked))
          text += ", lost after " + text_of(*ended - call.begin);
      }
    }
    complaints_.push_back(std::move(text));
  }

  void judge(const MadeCall& call) {
    if (call.outcomes != 1) {
      return complain(call, "it has " + std::to_string(call.outcomes) + " outcomes");
    }
    if (call.result.codes.size() != call.entries.size())
      return complain(call, "entries are missing");
    check_sent_once(call);
    if (call.is_batch) {
      judge_batch(call);
    } else {
      judge_single(call);
    }
    if (!evidence_.closed) check_nothing_left(call);
  }

  // ------------------------------------------------------------------------------ single calls
  void judge_single(const MadeCall& call) {
    const Stories& asks = stories(call.entries.front());
    if (call.result.failed != (call.result.failure != Failure::none ? 1U : 0U)) {
      complain(call, "its failures are counted wrong");
    }
    check_policy(call, call.result.codes[0], call.result.failure);
    if (evidence_.has_exact_clock) check_not_late(call, asks);
    if (!is_explained(call, asks)) complain(call, "nothing explains that outcome");
  }

  void check_policy(const MadeCall& call, uint8_t code, Failure failure) {
    if (failure == Failure::none) return;
    if (code != code_of(failure, call.is_quota)) {
      complain(call, "its code does not follow the failure policy");
    }
  }

  uint8_t code_of(Failure failure, bool is_quota) const {
    const bool is_open =
        evidence_.options.on_failure == OnFailure::open && failure != Failure::refused;
    const bool is_closed =
        evidence_.options.on_failure == OnFailure::closed && failure != Failure::refused;
    if (is_quota) return static_cast<uint8_t>(is_open ? QuotaCode::ok : QuotaCode::none);
    return static_cast<uint8_t>(is_open     ? Verdict::approved
                                : is_closed ? Verdict::denied
                                            : Verdict::none);
  }

  void check_not_late(const MadeCall& call, const Stories& asks) {
    const Time end = *call.end;
    for (const auto& asked : asks) {
      const auto arrived = arrival(*asked);
      if (arrived && *arrived < end && end_of(*asked) != arrived) {
        complain(call, "an answer had arrived before");
      }
      const auto ended = end_of(*asked);
      if (!evidence_.options.requeue && ended && *ended < end) {
        complain(call, "its connection had ended before");
      }
    }
    const Time latest =
        std::max(deadline(call) + (call.is_async ? tick : 0ms), call.returned.value_or(call.begin));
    if (end > latest) complain(call, "its deadline had passed");
  }

  static Time deadline(const MadeCall& call) { return call.begin + *call.patience; }

  bool is_at(Time cause, const MadeCall& call) const {
    return evidence_.has_exact_clock ? cause == *call.end : cause <= *call.end;
  }
  bool has_timed_out(const MadeCall& call) const { return *call.end >= deadline(call); }

  bool is_explained(const MadeCall& call, const Stories& asks) const {
    switch (call.result.failure) {
      case Failure::none:
        return is_answer(call, asks) || is_wait_limit(call, asks);
      case Failure::timed_out:
        return has_timed_out(call) &&
               std::none_of(asks.begin(), asks.end(),
                            [&](const auto& asked) { return is_queued_at_deadline(*asked, call); });
      case Failure::connection_lost:  // perhaps before the frame had reached the server
        if (asks.empty()) return is_trouble(call);
        return std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
          const auto ended = end_of(*asked);
          return ended && is_at(*ended, call);
        });
      case Failure::unreachable:
        return *call.end == call.begin || is_trouble(call);
      case Failure::draining:
        return has_drained(call, asks);
      case Failure::closed:
        return evidence_.closed && *evidence_.closed <= *call.end;
      case Failure::overloaded:
        return evidence_.options.pending_max < 1'000;
      case Failure::refused:
        return std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
          const Reply* word = asked->final_word();
          return word != nullptr && word->is_refusal && !word->is_draining && word->arrived &&
                 is_at(*word->arrived, call);
        });
    }
    return false;
  }

  bool is_answer(const MadeCall& call, const Stories& asks) const {
    return std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
      const Reply* word = asked->final_word();
      if (word == nullptr || word->is_refusal || word->is_draining) return false;
      const uint64_t reservation =
          call.result.reservations.empty() ? 0 : call.result.reservations[0];
      return word->code == call.result.codes[0] && word->reservation == reservation &&
             (!evidence_.has_exact_clock || (word->arrived && is_at(*word->arrived, call)));
    });
  }

  // The client itself ends the wait of a call in the server's queue.
  bool is_wait_limit(const MadeCall& call, const Stories& asks) const {
    const auto expected = call.is_quota ? static_cast<uint8_t>(QuotaCode::wait_limit)
                                        : static_cast<uint8_t>(Verdict::wait_limit);
    return call.result.codes[0] == expected && has_timed_out(call) &&
           std::any_of(asks.begin(), asks.end(), [](const auto& asked) {
             return !asked->replies.empty() && !asked->replies.front().is_final;
           });
  }

  bool is_queued_at_deadline(const Asked& asked, const MadeCall& call) const {
    if (!evidence_.has_exact_clock || asked.replies.empty() || asked.replies.front().is_final) {
      return false;
    }
    const auto& arrived = asked.replies.front().arrived;
    const auto ended = end_of(asked);
    return arrived && *arrived < deadline(call) && (!ended || *ended > *call.end);
  }

  bool is_trouble(const MadeCall& call) const {
    if (!evidence_.has_exact_clock) return true;
    return evidence_.ledger.troubles.contains(*call.end) || evidence_.failures.contains(*call.end);
  }

  bool has_drained(const MadeCall& call, const Stories& asks) const {
    const bool is_word = std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
      const Reply* word = asked->final_word();
      return word != nullptr && word->is_draining && word->arrived && is_at(*word->arrived, call);
    });
    const auto& connections = evidence_.ledger.connections;
    return is_word || std::any_of(connections.begin(), connections.end(), [&](const auto& each) {
             return each.second.went_away && *each.second.went_away <= *call.end;
           });
  }

  // ------------------------------------------------------------------------------------ batches
  void judge_batch(const MadeCall& call) {
    size_t failed_least = 0;
    size_t failed_most = 0;
    bool is_refused = call.result.failure == Failure::refused;
    for (size_t i = 0; i < call.entries.size(); ++i) {
      const Stories& asks = stories(call.entries[i]);
      const bool has_answer = is_entry_answered(call, i, asks);
      const bool must_have = must_be_answered(call, asks);
      const bool is_by_policy =
          call.result.codes[i] == code_of(Failure::timed_out, call.is_quota) ||
          call.result.codes[i] == 0 || is_refused;
      if (must_have && !has_answer)
        complain(call, "entry " + std::to_string(i) + " lost its answer");
      if (!has_answer && !is_by_policy) {
        complain(call, "nothing explains entry " + std::to_string(i));
      }
      failed_least += has_answer ? 0 : 1;
      failed_most += must_have ? 0 : 1;
    }
    if (call.result.failed < failed_least || call.result.failed > failed_most) {
      complain(call, std::to_string(call.result.failed) + " failures are counted, not " +
                         std::to_string(failed_least) + " to " + std::to_string(failed_most));
    }
    if ((call.result.failed > 0) != (call.result.failure != Failure::none)) {
      complain(call, "its failure and the count of failures disagree");
    }
    const auto limit = *call.patience * (call.by_handle ? 2 : 1);  // by handle, then by key
    if (evidence_.has_exact_clock && *call.end > call.begin + limit) {
      complain(call, "its deadline had passed");
    }
  }

  bool is_entry_answered(const MadeCall& call, size_t i, const Stories& asks) const {
    const uint64_t reservation =
        i < call.result.reservations.size() ? call.result.reservations[i] : 0;
    for (const auto& asked : asks) {
      const Reply* word = asked->final_word();
      const bool is_there = word != nullptr && !word->is_refusal && !word->is_draining &&
                            (!evidence_.has_exact_clock || arrival(*asked));
      const bool is_same = is_there && word->code == call.result.codes[i] &&
                           (reservation == 0 || word->reservation == reservation);
      if (is_same) return true;
      const bool is_client_limit =
          call.may_wait && has_timed_out(call) && !asked->replies.empty() &&
          !asked->replies.front().is_final &&
          call.result.codes[i] == static_cast<uint8_t>(Verdict::wait_limit);
      if (is_client_limit) return true;
    }
    return false;
  }

  // Its answer arrived when nothing else could have completed it.
  bool must_be_answered(const MadeCall& call, const Stories& asks) const {
    if (!evidence_.has_exact_clock) return false;
    return std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
      const auto arrived = arrival(*asked);
      const Reply* word = asked->final_word();
      return arrived && *arrived < deadline(call) && !word->is_refusal && !word->is_draining &&
             end_of(*asked) != arrived && (!evidence_.closed || *arrived < *evidence_.closed);
    });
  }

  // -------------------------------------------------------------------------------- afterwards
  void check_sent_once(const MadeCall& call) {
    if (evidence_.options.requeue || call.is_release) return;
    for (const std::string& entry : call.entries) {
      if (stories(entry).size() > 1 && !call.by_handle) {
        complain(call, entry + " was sent " + std::to_string(stories(entry).size()) + " times");
      }
    }
  }

  void check_nothing_left(const MadeCall& call) {
    if (call.is_batch) return;
    for (const auto& asked : stories(call.entries.front())) {
      const Reply* word = asked->final_word();
      if (word == nullptr && evidence_.connected.contains(asked->connection)) {
        complain(call, "the server still has it in a queue");
      }
      const auto arrived = arrival(*asked);
      if (!arrived || end_of(*asked) == arrived) continue;
      check_withdrawn(call, *asked);
      check_undone(call, *asked, *word);
    }
  }

  void check_withdrawn(const MadeCall& call, const Asked& asked) {
    const Reply& first = asked.replies.front();
    const bool has_left = call.result.failure == Failure::timed_out || has_left_queue(call, asked);
    if (evidence_.has_exact_clock && asked.withdrawals > 0 && !call.cancelled && !has_left) {
      complain(call, "it was withdrawn, and nobody wished it");
    }
    if (asked.withdrawals > 1) complain(call, "it was withdrawn twice");
    if (first.is_final || !evidence_.has_exact_clock) return;
    const Time outcome = *asked.final_word()->arrived;
    const auto is_missing = [&](Time wish) {
      const Time begin = std::max(wish, *first.arrived);
      return begin < outcome && asked.withdrawals == 0 && must_have_reached(asked, begin);
    };
    if ((call.cancelled && is_missing(*call.cancelled)) || (has_left && is_missing(*call.end))) {
      complain(call, "it was not withdrawn from the server's queue");
    }
  }

  bool has_left_queue(const MadeCall& call, const Asked& asked) const {
    return call.result.failure == Failure::none &&
           is_wait_limit(call, {std::make_shared<Asked>(asked)}) &&
           (!asked.final_word() || asked.final_word()->code != call.result.codes[0] ||
            *asked.final_word()->arrived > *call.end);
  }

  // A grant that its caller did not get is undone, once; another one never is.
  void check_undone(const MadeCall& call, const Asked& asked, const Reply& word) {
    if (!word.is_approved || call.is_release) return;
    const bool may_be_used = call.result.codes[0] == code_of(Failure::timed_out, call.is_quota) &&
                             evidence_.options.on_failure == OnFailure::open &&
                             call.result.failure == Failure::timed_out;
    const bool is_delivered =
        call.result.failure == Failure::none && call.result.codes[0] == word.code;
    if (call.kind.starts_with("acquire")) {
      const auto found = evidence_.ledger.releases.find(call.entries.front());
      const uint32_t released = found == evidence_.ledger.releases.end() ? 0 : found->second;
      check_undone(call, asked, released, is_delivered || may_be_used);
    } else if (word.reservation != 0 && !is_delivered) {
      const auto found = evidence_.ledger.cancels.find(word.reservation);
      const uint32_t cancelled = found == evidence_.ledger.cancels.end() ? 0 : found->second;
      check_undone(call, asked, cancelled, may_be_used);
    }
  }

  void check_undone(const MadeCall& call, const Asked& asked, uint32_t times, bool is_used) {
    const bool is_on_its_way =
        times == 0 && !must_have_reached(asked, *asked.final_word()->arrived);
    const bool is_repeated = evidence_.options.requeue && times > 1;  // its answer was lost
    if (is_used ? times != 0 : times != 1 && !is_on_its_way && !is_repeated) {
      complain(call, "the grant was undone " + std::to_string(times) + " times");
    }
  }

  const Evidence& evidence_;
  std::map<uint32_t, Time> latest_begins_;  // of the calls of each connection
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> judge(const Evidence& evidence) {
  return Judge{evidence}.run();
}

}  // namespace sluicegate::simulation
