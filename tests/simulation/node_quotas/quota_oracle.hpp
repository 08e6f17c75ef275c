// What clients of a fleet know of its quotas: which reservations are open, and what subjects have
// charged. The limits must hold for that at every moment, and in the end every owner must have
// charged what its callers know.
// Flow:   a caller asks -> ask(); its answer -> admitted(), reserved(), refused(), lost(), ended(),
//         extended(); the run -> crashed(), disturbed(); the end -> check_usage().
// Shape:  a client knows a reservation as open from the answer that names it until it asks for its
//         end, its lifetime is over, or it leaves when it is bound to its connection. The owner has
//         it open for longer, at both ends; so what clients know never exceeds a limit.
//         A node that crashes has forgotten what was used of its subjects, or, with a state file,
//         what came after its last cut.
// Lives:  one per run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "known_call.hpp"
#include "proto/node_hash.hpp"

namespace sluice::simulation {

inline constexpr uint64_t slots_max = 3;  // open reservations of a subject
inline constexpr uint32_t default_lifetime_ms = 40'000;

// Of one subject at its owner, when nobody asks any more.
struct SubjectUsage {
  std::string name;
  uint64_t used = 0, reserved = 0;
  uint32_t open_reservations = 0, waiting = 0;
};

class QuotaOracle {
 public:
  QuotaOracle(uint32_t nodes, uint64_t tokens_max) : nodes_(nodes), tokens_max_(tokens_max) {}

  void set_time(int64_t now_ns) { now_ns_ = now_ns; }
  int64_t now_ns() const { return now_ns_; }
  uint64_t tokens_max() const { return tokens_max_; }
  uint32_t nodes() const { return nodes_; }
  uint32_t owner_of(const std::string& subject) const {
    return proto::subject_node(subject, nodes_);
  }
  uint32_t home_of(const KnownCall& call) const { return owner_of(call.subjects.front()); }
  bool is_spread(const Subjects& subjects) const;

  // Reserve, consume, record; or again, under the same id.
  CallPtr ask(KnownCall call);
  void ask_again(KnownCall& call);
  void admitted(KnownCall& call);
  void reserved(const CallPtr& call, uint64_t reservation);
  void refused(KnownCall& call);
  // The answer is `owner_unreachable`. `is_at_home`: its home has answered, so that it knows which
  // parts it cancels.
  void unreachable(KnownCall& call, bool is_at_home);
  // There will be no answer.
  void lost(KnownCall& call);
  uint64_t most_charged(const std::string& subject) const;
  // A check, and that it says yes.
  KnownCall for_check(KnownCall call) const;
  void check_admitted(const KnownCall& call);

  // Settled or cancelled.
  void ask_end(KnownCall& call);
  void ended(KnownCall& call, api::QuotaCode code);
  // Its connection is gone to which it is bound.
  void unbound(KnownCall& call);

  struct Extension {
    CallPtr call;
    std::vector<uint64_t> starts;  // of the owners, when it was asked for
    uint32_t lifetime_ms = 0;      // 0: the last one again
    int64_t asked_ns = 0;
  };
  Extension ask_extension(const CallPtr& call, uint32_t lifetime_ms);
  void extended(const Extension& extension, api::QuotaCode code, bool is_at_home);
  // Nobody knows whether it was.
  void extension_lost(const Extension& extension);

  // `kept_ns`: it will start again with a state that it had then or later; never_kept: with none.
  static constexpr int64_t never_kept = INT64_MIN;
  void crashed(uint32_t node, int64_t kept_ns);
  // Messages or nodes are late, or lost.
  void disturbed(int64_t until_ns);
  // Nothing will be disturbed any more.
  void calm() { disturbances_.push_back({.from_ns = base::never_ns, .until_ns = base::never_ns}); }
  bool is_disturbed() const { return was_disturbed_since(now_ns_); }
  // Since it was made.
  bool has_home_restarted(const KnownCall& call) const {
    return call.starts.front() != starts_of(call.subjects.front());
  }

  // All nodes answer for a while; asked at that time.
  void check_open(const SubjectUsage& usage, int64_t asked_ns);
  // Nobody asks, all has settled.
  void check_usage(const SubjectUsage& usage);
  int64_t probe_ns(const KnownCall& call) const { return call.over_at_ns + late_ns; }

  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  const std::string& failure() const { return failure_; }
  uint64_t exact() const { return exact_; }      // answers about usage that is known exactly
  uint64_t between() const { return between_; }  // and such that may be more or less
  uint64_t charged() const { return charged_; }  // tokens, in all answers
  uint64_t unknown() const { return unknown_; }  // and the other amounts that would be right

 private:
  // Less a moment, for deadlines count in milliseconds.
  static constexpr int64_t tick_ns = 10 * base::ns_per_ms;
  // A node that was paused may decide an extension before it ends what is overdue.
  static constexpr int64_t late_ns = 3'200 * base::ns_per_ms;
  // What nodes owe each other is repeated for as long as a part lives.
  static constexpr int64_t repeats_ns = 10 * base::ns_per_s;
  // Also one that has expired takes the end for so long.
  static constexpr int64_t expired_part_ns = int64_t{limits::repeats_ms_min} * base::ns_per_ms;
  // And it lives longer than its home: not much less than Options::node_part_slack_ms.
  static constexpr int64_t part_slack_ns = 5 * base::ns_per_s;
  static constexpr int64_t part_slack_ns_max = 7 * base::ns_per_s;  // not much more
  // A call that waits, and other nodes that are silent.
  static constexpr int64_t answered_ns_max = 8 * base::ns_per_s;
  // Until they have what they owe each other when nothing is disturbed any more.
  static constexpr int64_t mends_ns = 1'500 * base::ns_per_ms;

  uint64_t starts_of(const std::string& subject) const;
  std::vector<uint64_t> starts_of(const Subjects& subjects) const;
  bool is_since_start(const KnownCall& call) const {
    return call.starts == starts_of(call.subjects);
  }
  bool was_disturbed_since(int64_t since_ns) const { return disturbed_until_ns_ >= since_ns; }
  bool is_at_home(const KnownCall& call, size_t place) const {
    return owner_of(call.subjects[place]) == home_of(call);
  }
  bool may_be_open(const KnownCall& call, const std::string& subject, int64_t at_ns) const;
  bool may_have_lost_end(const KnownCall& call, uint32_t node) const;
  bool was_calm(int64_t since_ns, int64_t until_ns) const;
  Charged charged_in_the_end(const KnownCall& call, const std::string& subject) const;
  void take_back(KnownCall& call, bool stays_at_parts);
  void check_limit(const KnownCall& call, size_t place);
  void check_room(const KnownCall& call, size_t place);
  bool is_open(const KnownCall& call, const std::string& subject) const;
  bool is_open_everywhere(const KnownCall& call) const;
  std::string open_ones(const std::string& subject) const;
  uint64_t open_count(const std::string& subject, int64_t since_ns) const;
  // Whether a client knew it at that time.
  static bool was_known(const KnownCall& reservation, int64_t kept_ns) {
    return kept_ns != never_kept && reservation.opened_ns > 0 && reservation.opened_ns < kept_ns;
  }
  void restart(KnownCall& call, size_t place, int64_t kept_ns) const;
  void lose_home(KnownCall& call, int64_t kept_ns) const;
  void end_charge(KnownCall& call, size_t place) const;
  void set_extended(const Extension& extension, int64_t until_ns) const;

  const uint32_t nodes_;
  const uint64_t tokens_max_;
  int64_t now_ns_ = 0;
  int64_t disturbed_until_ns_ = INT64_MIN;
  struct Disturbance {
    int64_t from_ns;
    int64_t until_ns;
  };
  struct Crash {
    int64_t at_ns;
    int64_t kept_ns;
  };
  std::vector<Disturbance> disturbances_;               // in the order in which they begin
  std::map<uint32_t, uint64_t> starts_;                 // by node
  std::map<uint32_t, std::vector<Crash>> crashes_;      // by node, which had a state then
  std::map<std::string, std::vector<CallPtr>> calls_;   // that may be charged, by subject
  std::map<std::string, std::vector<CallPtr>> opened_;  // reservations, likewise
  uint64_t exact_ = 0, between_ = 0, charged_ = 0, unknown_ = 0;
  std::string failure_;
};

}  // namespace sluice::simulation
