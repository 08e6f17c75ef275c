// Checks a fleet: what its nodes decide, and what their clients receive.
// Flow:   callers -> asked(), answered(), left(); WatchedKeys, one per worker -> decide() and the
//         other calls of its decider; the run -> check() between steps, end().
// Shape:  see call.hpp how entries are recognised.
// Errors: the first thing that is wrong is reported as a sentence.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "../failure.hpp"
#include "api/entry.hpp"
#include "call.hpp"
#include "disturbances.hpp"
#include "fleet_event.hpp"
#include "fleet_options.hpp"
#include "io/sim/sim_network.hpp"
#include "shard/key_decider.hpp"

namespace sluice::simulation {

// Who decides.
struct DecidingShard {
  uint32_t node = 0;
  uint64_t start = 0;
  uint32_t shard = 0;
};

class FleetOracle {
 public:
  FleetOracle(const DrawnFleet& fleet, const Disturbances& disturbances, io::SimNetwork& network,
              Failure& failure);

  // --- Clients.
  // The entry's id is added to a key that ends with "-".
  Call& ask(Call asked);
  // What the client receives.
  struct Answer {
    api::Verdict verdict{};
    const api::Detail* detail = nullptr;  // if it has asked for: limit, remaining, retry_after_ms
    bool is_outcome = false;              // of a waiter
    bool is_degraded = false;             // and says so
    bool shows_degraded = false;          // REST: it would say so
    bool may_have_waited = false;         // REST: its client does not know
    bool is_done = false;                 // native: releases have no verdicts
  };
  void queued(Call& call, const Answer& answer);
  void answered(Call& call, const Answer& answer);
  void withdrawn(Call& call);
  void left(Call& call);

  // --- Deciders.
  struct Decided {
    const api::Entry& entry;
    api::Verdict verdict{};
    api::Detail detail;
    api::ShardId origin = 0;
    uint32_t approved_before = 0;        // of the key
    std::optional<api::KeyState> state;  // afterwards
    base::Now now;
  };
  void on_decided(const DecidingShard& at, const Decided& decided);
  void on_grant(const DecidingShard& at, const api::Grant& grant);
  void on_left_queue(const DecidingShard& at, api::ShardId origin, api::Ticket ticket);
  void on_refund(const DecidingShard& at, const api::RefundClaim& claim);
  // Its deciders are gone, and so are its lanes.
  void on_crash(uint32_t node);

  // --- The run.
  void note_lane_lost(uint32_t entry_node, uint32_t owner);
  // From now on no byte of `owner` reaches `node`: its route is cut, or it is paused. As often as
  // it ends.
  void begin_silence(uint32_t owner, uint32_t node);
  void end_silence(uint32_t owner, uint32_t node);
  // A route that was cut since then is whole again.
  void note_healed(uint32_t from, uint32_t to, int64_t since_ns);
  // The node has run for so long.
  void add_served(uint32_t node, int64_t time_ns) { served_ns_[node] += time_ns; }
  void check();
  // Everything has been answered, and has had time to be refunded.
  void end();

  // By the list of the entry node.
  uint32_t owner_of(uint32_t entry_node, std::string_view key) const;
  void count(FleetEvent event, uint64_t times = 1) {
    counts_[static_cast<uint32_t>(event)] += times;
  }
  const FleetCounts& counts() const { return counts_; }
  uint64_t calls_count() const { return calls_.size(); }
  void trace(const std::string& text) const;

 private:
  using WaiterName = std::tuple<uint32_t, uint32_t, api::ShardId, api::Ticket>;
  using KeyHashName = std::pair<uint64_t, uint32_t>;

  static constexpr int64_t idle_ping_ms = 1'000;
  // Until a refund has arrived: its answer may be behind a cut, and its owner pause then.
  static constexpr int64_t refund_ns_max = 6 * base::ns_per_s;
  static constexpr int64_t forget_ns = 30 * base::ns_per_s;  // later nothing is decided

  struct WindowBook {
    uint64_t approved = 0;
    uint64_t released = 0;   // by clients
    uint64_t delivered = 0;  // approvals that clients have received
  };
  struct Silence {
    uint32_t causes = 0;
    int64_t since_served_ns = 0;  // by the time that the other node has run
  };
  struct LaneLoss {
    int64_t at_ns = 0;
    int64_t served_ns = 0;  // by the time that the entry node has run
  };
  struct KeyBook {
    uint64_t undelivered = 0;  // approved, and nobody has received it
    uint64_t owed = 0;         // of them, to be refunded for certain
    uint64_t refunded = 0;
  };

  static std::optional<CallId> id_of(const api::Entry& entry);
  static std::string name_of(const Call& call);
  void fail(const std::string& text);
  bool is_decided(const Call& call, const Answer& answer) const;
  bool is_policy(const Call& call, const Answer& answer) const;
  void check_policy(Call& call, const Answer& answer);
  void deliver(Call& call);
  void note_gone(Call& call);
  void on_call(const DecidingShard& at, Call& call, const Decided& decided);
  bool is_stand_in(uint32_t node, const Call& call) const;
  Call& record_of(const DecidingShard& at, Call& call);
  Call& lost_record_of(Call& call);
  void approve(Call& call, int64_t window_end_ms);
  CallWindow window_of(const CallWindow& reported) const;
  void check_place(const DecidingShard& at, const Call& call);
  void check_answer_time(const Call& call);
  bool may_be_held(const Call& call) const;
  void check_silence(const Call& call);
  bool is_owner_silent(const Call& call) const;
  std::optional<int64_t> due_since_ns(const Call& call) const;
  std::optional<int64_t> frame_due_ns(const Call& call) const;
  bool has_left_queue(const Call& call);
  int64_t undisturbed_ns(const Call& call) const;
  void add_to_books(const Call& call);
  bool was_lost(uint32_t entry_node, uint32_t owner, int64_t LaneLoss::*clock, int64_t from_ns,
                int64_t until_ns) const;
  int64_t now_ns() const { return network_.clock().monotonic_ns; }

  const DrawnFleet& fleet_;
  const Disturbances& disturbances_;
  io::SimNetwork& network_;
  Failure& failure_;
  const bool traces_;
  CallId next_id_ = 1;
  CallId next_lost_id_ = 1U << 30;
  std::map<CallId, Call> calls_;
  std::map<CallId, Call*> open_;     // without an answer
  std::map<CallId, Call*> leaving_;  // gone, and may wait at an owner
  std::map<WaiterName, CallId> waiting_;
  std::map<std::tuple<uint32_t, uint64_t, uint32_t, std::string>, CallId> last_decided_;
  std::map<CallWindow, WindowBook> windows_;
  std::map<std::string, KeyBook> keys_;
  std::map<KeyHashName, std::string> claims_;  // keys of grants
  std::map<std::pair<uint32_t, uint32_t>, std::vector<LaneLoss>> lost_;
  std::map<std::pair<uint32_t, uint32_t>, Silence> silences_;  // by owner and the other node
  std::vector<int64_t> served_ns_;
  FleetCounts counts_{};
};

}  // namespace sluice::simulation
