#include "judge.hpp"

#include <algorithm>

namespace sluicegate::simulation {
namespace {

using namespace std::chrono_literals;

constexpr auto tick = 10ms;        // the deadlines of calls with callbacks are that coarse
constexpr size_t interns_max = 5;  // open at a time: one of each caller

class Judge {
 public:
  explicit Judge(const Evidence& evidence) : evidence_{evidence} {}

  std::vector<std::string> run() {
    for (const std::string& each : evidence_.ledger.complaints) {
      complaints_.push_back("the client sent " + each);
    }
    note_latest_begins();
    for (const MadeCall& call : evidence_.calls) judge(call);
    if (!evidence_.closed) check_kept_settles();
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
  const ConnectionStory& story_of(const Asked& asked) const {
    return evidence_.ledger.connections.at(asked.connection);
  }
  std::optional<Time> end_of(const Asked& asked) const { return story_of(asked).ended; }
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
    check_kept(call);
    if (evidence_.has_exact_clock) check_not_late(call, asks);
    if (!is_explained(call, asks)) complain(call, "nothing explains that outcome");
  }

  // A settle whose call failed is the client's to repeat, unless the caller has the error.
  void check_kept(const MadeCall& call) {
    const Failure failure = call.result.failure;
    const bool is_outage =
        failure != Failure::none && failure != Failure::refused && failure != Failure::closed;
    const bool must_be =
        call.kind == "settle" && is_outage && evidence_.options.on_failure != OnFailure::error;
    if (call.result.is_kept != must_be) complain(call, "it is wrong that it was (not) kept");
  }

  // Each has an answer in the end; a refused frame ends a settle that is alone in it.
  void check_kept_settles() {
    for (const uint64_t reservation : evidence_.kept) {
      const std::string name = "settle:" + std::to_string(reservation);
      const Stories& asks = stories(name);
      const bool is_over = std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
        return arrival(*asked) && !asked->final_word()->is_draining;
      });
      if (!is_over) complaints_.push_back(name + " was kept, and no server took it");
    }
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
        if (may_be_unsent(call, asks) && is_trouble(call)) return true;
        return std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
          const auto ended = end_of(*asked);
          return ended && is_at(*ended, call);
        });
      case Failure::unreachable:
        return is_trouble(call) || (*call.end == call.begin && may_rest(call.begin, call.begin));
      case Failure::draining:
        return has_drained(call, asks);
      case Failure::closed:
        return evidence_.closed && *evidence_.closed <= *call.end;
      case Failure::overloaded:
        return is_full(call);
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
    const bool is_loss = std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
      const auto ended = end_of(*asked);
      return story_of(*asked).went_away && ended && is_at(*ended, call);
    });
    // Not sent, or to be sent again.
    const bool may_be_staged = may_be_unsent(call, asks) || evidence_.options.requeue;
    return is_word || is_loss || (may_be_staged && is_draining(*call.end, *call.end));
  }
  // The server may have been asked by a repeat alone.
  static bool may_be_unsent(const MadeCall& call, const Stories& asks) {
    return asks.empty() || call.result.is_kept;
  }
  // Whether the client knew of a connection in that time that the server drains it.
  bool is_draining(Time begin, Time end) const {
    const auto& connections = evidence_.ledger.connections;
    return std::any_of(connections.begin(), connections.end(), [&](const auto& each) {
      const ConnectionStory& story = each.second;
      return story.went_away && *story.went_away <= end &&
             (!evidence_.has_exact_clock || !story.ended || *story.ended >= begin);
    });
  }

  // Whether a lane may have rested in that time: an attempt or a connection had failed before, so
  // long ago that no other attempt need have ended since, and not all lanes were in use.
  bool may_rest(Time begin, Time end) const {
    if (!evidence_.has_exact_clock) return true;
    const ClientOptions& options = evidence_.options;
    constexpr int attempts_max = 2 * 3;  // to connect, and to intern, of each lane
    const auto longest = options.backoff_longest + attempts_max * options.connect_timeout;
    const auto is_recent = [&](const std::set<Time>& times) {
      const auto found = times.lower_bound(begin - longest);
      return found != times.end() && *found <= end;
    };
    const bool has_cause = is_recent(evidence_.ledger.troubles) || is_recent(evidence_.failures);
    return has_cause && !are_all_in_use(begin, end);
  }
  bool are_all_in_use(Time begin, Time end) const {
    uint64_t instance = 0;
    for (const auto& [connection, story] : evidence_.ledger.connections) {
      if (story.used && *story.used <= begin) instance = std::max(instance, story.instance);
    }
    std::set<uint32_t> in_use;
    size_t shards = 0;
    for (const auto& [connection, story] : evidence_.ledger.connections) {
      if (story.instance != instance || !story.used || *story.used > begin) continue;
      shards = story.shards;
      const bool is_usable = !story.ended || *story.ended > end;
      if (is_usable && story.wanted < shards) in_use.insert(story.wanted);
    }
    return shards > 0 && in_use.size() == shards;
  }

  // Whether so many calls may have been open as the client allows on a connection.
  bool is_full(const MadeCall& call) const {
    const ClientOptions& options = evidence_.options;
    // A caller that waits for room gives up at its deadline, one with a callback never.
    if (options.when_full == WhenFull::block && !has_timed_out(call)) return false;
    if (!evidence_.has_exact_clock) return options.pending_max < 1'000;
    size_t open = interns_max + cleanups_open(*call.end);
    for (const MadeCall& other : evidence_.calls) {
      if (&other == &call || other.begin > *call.end) continue;
      if (!other.end || *other.end >= call.begin) open += other.entries.size();
    }
    return open + (call.is_batch ? call.entries.size() : 0) >= options.pending_max;
  }
  // Releases and cancels that the client sends by itself, and that the server has not answered.
  size_t cleanups_open(Time time) const {
    size_t open = 0;
    for (const auto& [name, asks] : evidence_.ledger.asked) {
      if (!name.starts_with("release:k") && !name.starts_with("cancel:")) continue;
      open += static_cast<size_t>(std::count_if(asks.begin(), asks.end(), [&](const auto& asked) {
        const auto arrived = arrival(*asked);
        return !arrived || *arrived >= time;
      }));
    }
    return open;
  }

  // ------------------------------------------------------------------------------------ batches
  void judge_batch(const MadeCall& call) {
    size_t failed_least = 0;
    size_t failed_most = 0;
    for (size_t i = 0; i < call.entries.size(); ++i) {
      const Stories& asks = stories(call.entries[i]);
      const bool has_answer = is_entry_answered(call, i, asks);
      const bool must_have = must_be_answered(call, asks);
      const uint8_t code = call.result.codes[i];
      const bool is_by_policy = code == code_of(Failure::timed_out, call.is_quota) ||
                                (code == 0 && is_refused(call, asks, *call.end));
      if (must_have && !has_answer)
        complain(call, "entry " + std::to_string(i) + " lost its answer");
      if (!has_answer && !is_by_policy) {
        complain(call, "nothing explains entry " + std::to_string(i));
      }
      if (code != 0 && must_be_refused(call, asks)) {
        complain(call, "entry " + std::to_string(i) + " was refused");
      }
      failed_least += has_answer ? 0 : 1;
      failed_most += must_have ? 0 : 1;
    }
    if (!is_batch_failure_explained(call)) complain(call, "nothing explains its failure");
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
    const auto wait_limit = call.is_quota ? static_cast<uint8_t>(QuotaCode::wait_limit)
                                          : static_cast<uint8_t>(Verdict::wait_limit);
    return std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
      const bool is_client_limit = call.may_wait && has_timed_out(call) &&
                                   !asked->replies.empty() && !asked->replies.front().is_final &&
                                   call.result.codes[i] == wait_limit;
      return is_client_limit || is_delivered(call, i, *asked);
    });
  }
  // Whether the caller has what the server said of this entry.
  bool is_delivered(const MadeCall& call, size_t i, const Asked& asked) const {
    const Reply* word = asked.final_word();
    if (word == nullptr || word->is_refusal || word->is_draining) return false;
    if (!call.is_batch && call.result.failure != Failure::none) return false;
    if (evidence_.has_exact_clock) {
      const auto arrived = arrival(asked);
      if (!arrived || *arrived > *call.end) return false;
    }
    const bool has_reservation = i < call.result.reservations.size();
    return word->code == call.result.codes[i] &&
           (!has_reservation || word->reservation == call.result.reservations[i]);
  }

  bool is_refused(const MadeCall& call, const Stories& asks, Time before) const {
    return std::any_of(asks.begin(), asks.end(), [&](const auto& asked) {
      const Reply* word = asked->final_word();
      return word != nullptr && word->is_refusal && !word->is_draining &&
             (!evidence_.has_exact_clock ||
              (arrival(*asked) && *arrival(*asked) <= before && *arrival(*asked) >= call.begin));
    });
  }
  bool must_be_refused(const MadeCall& call, const Stories& asks) const {
    if (!evidence_.has_exact_clock || asks.size() != 1 || evidence_.closed) return false;
    const Asked& asked = *asks.front();
    return end_of(asked) != arrival(asked) &&
           is_refused(call, asks, deadline(call) - std::chrono::microseconds{1});
  }

  // The first failure that the client noticed may have had its cause at any time of the call.
  bool is_batch_failure_explained(const MadeCall& call) const {
    const auto any_ask = [&](auto condition) {
      return std::any_of(call.entries.begin(), call.entries.end(), [&](const std::string& entry) {
        const Stories& asks = stories(entry);
        return std::any_of(asks.begin(), asks.end(),
                           [&](const auto& asked) { return condition(*asked); });
      });
    };
    const auto is_within = [&](const std::optional<Time>& time) {
      return time && *time <= *call.end && (!evidence_.has_exact_clock || *time >= call.begin);
    };
    const bool is_unsent =
        std::any_of(call.entries.begin(), call.entries.end(),
                    [&](const std::string& entry) { return stories(entry).empty(); });
    switch (call.result.failure) {
      case Failure::none:
        return true;
      case Failure::timed_out:
        return has_timed_out(call);
      case Failure::refused:
        return std::any_of(call.entries.begin(), call.entries.end(), [&](const auto& entry) {
          return is_refused(call, stories(entry), *call.end);
        });
      case Failure::draining:
        return is_draining(call.begin, *call.end) || any_ask([&](const Asked& asked) {
                 const Reply* word = asked.final_word();
                 return word != nullptr && word->is_draining && is_within(word->arrived);
               });
      case Failure::connection_lost:
        return any_ask([&](const Asked& asked) { return is_within(end_of(asked)); }) ||
               (is_unsent && may_have_failed(call));
      case Failure::unreachable:
        return may_have_failed(call) || may_rest(call.begin, *call.end);
      case Failure::closed:
        return evidence_.closed && *evidence_.closed <= *call.end;
      case Failure::overloaded:
        return call.may_wait && is_full(call);
    }
    return false;
  }
  bool may_have_failed(const MadeCall& call) const {
    if (!evidence_.has_exact_clock) return true;
    const auto is_within = [&](const std::set<Time>& times) {
      const auto found = times.lower_bound(call.begin);
      return found != times.end() && *found <= *call.end;
    };
    return is_within(evidence_.ledger.troubles) || is_within(evidence_.failures);
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
    for (const std::string& entry : call.entries) {
      const Stories& asks = stories(entry);
      if (asks.size() > 1 && !evidence_.options.requeue && !call.result.is_kept) {
        complain(call, entry + " was sent " + std::to_string(asks.size()) + " times");
      }
      for (size_t i = 1; i < asks.size(); ++i) {
        const bool is_repeat = call.result.is_kept;  // also where the server was only silent
        if (!is_repeat && evidence_.connected.contains(asks[i - 1]->connection)) {
          complain(call, entry + " was sent again, and its connection stands");
        }
      }
    }
  }

  void check_nothing_left(const MadeCall& call) {
    for (size_t i = 0; i < call.entries.size(); ++i) {
      for (const auto& asked : stories(call.entries[i])) check_nothing_left(call, i, *asked);
    }
  }
  void check_nothing_left(const MadeCall& call, size_t i, const Asked& asked) {
    const Reply* word = asked.final_word();
    if (word == nullptr && evidence_.connected.contains(asked.connection)) {
      complain(call, "the server still has " + call.entries[i] + " in a queue");
    }
    const auto arrived = arrival(asked);
    if (!arrived || end_of(asked) == arrived) return;
    check_withdrawn(call, i, asked);
    check_undone(call, i, asked, *word);
  }

  void check_withdrawn(const MadeCall& call, size_t i, const Asked& asked) {
    const Reply& first = asked.replies.front();
    const bool has_left = has_left_entry(call, i, asked);
    if (evidence_.has_exact_clock && asked.withdrawals > 0 && !call.cancelled && !has_left) {
      complain(call, call.entries[i] + " was withdrawn, and nobody wished it");
    }
    if (asked.withdrawals > 1) complain(call, call.entries[i] + " was withdrawn twice");
    if (first.is_final || !evidence_.has_exact_clock) return;
    const Time outcome = *asked.final_word()->arrived;
    const auto is_missing = [&](Time wish) {
      const Time begin = std::max(wish, *first.arrived);
      return begin < outcome && asked.withdrawals == 0 && must_have_reached(asked, begin);
    };
    if ((call.cancelled && is_missing(*call.cancelled)) || (has_left && is_missing(*call.end))) {
      complain(call, call.entries[i] + " was not withdrawn from the server's queue");
    }
  }

  // Whether the caller stopped waiting for this entry at the end of the call.
  bool has_left_entry(const MadeCall& call, size_t i, const Asked& asked) const {
    if (call.is_batch) return has_timed_out(call) && !is_delivered(call, i, asked);
    if (call.result.failure == Failure::timed_out) return true;
    return call.result.failure == Failure::none && !is_delivered(call, i, asked) &&
           is_wait_limit(call, {std::make_shared<Asked>(asked)});
  }

  // A grant that its caller did not get is undone, once; another one never is. The client undoes
  // no permits of batches whose entries may not wait.
  void check_undone(const MadeCall& call, size_t i, const Asked& asked, const Reply& word) {
    if (!word.is_approved || call.is_release) return;
    const bool is_slice = call.is_batch && !call.may_wait;
    const bool has_timed_out_by_policy =
        call.is_batch ? has_timed_out(call) : call.result.failure == Failure::timed_out;
    // A guard records its usage by itself.
    const bool has_guard = call.kind == "lease" || call.kind.starts_with("reserve");
    const bool may_be_used = !is_slice && (!has_guard || call.is_batch) &&
                             has_timed_out_by_policy &&
                             evidence_.options.on_failure == OnFailure::open &&
                             call.result.codes[i] == code_of(Failure::timed_out, call.is_quota);
    const bool is_used = is_delivered(call, i, asked) || may_be_used;
    if (call.kind.starts_with("acquire")) {
      const auto found = evidence_.ledger.releases.find(call.entries[i]);
      const uint32_t released = found == evidence_.ledger.releases.end() ? 0 : found->second;
      check_undone(call, asked, released, is_used || is_slice);
    } else if (word.reservation != 0 && !is_delivered(call, i, asked)) {
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
