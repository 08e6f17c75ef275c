// Goal: the times that docs/nodes.md promises, in simulated time: when a silent owner is noticed,
//       how soon callers are answered from then on, and when a waiter is gone after its caller.
// Method: fleets of two nodes, of one to three shards each. One falls silent in each way that there
//       is, and a caller asks the other one for its keys, one request after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/time.hpp"
#include "node.hpp"
#include "peer/peers.hpp"
#include "rest_answer.hpp"

namespace sluice::simulation {
namespace {

#ifdef SLUICE_ADDRESS_SANITIZER
constexpr uint64_t timed_seeds = 1;
#else
constexpr uint64_t timed_seeds = 5;
#endif
constexpr uint32_t asked_node = 0, silent_node = 1;
constexpr int64_t timed_silence_ms = 900;
constexpr int64_t way_ns_max = base::ns_per_ms;
constexpr int64_t timed_step_ns_max = 100 * base::ns_per_us;
constexpr int64_t timed_idle_ns_max = base::ns_per_ms;
constexpr int64_t connected_ns = 3 * base::ns_per_s;  // each worker to each shard of the other node
// As promised.
constexpr int64_t failure_ns_p99 = 5 * base::ns_per_ms;
constexpr int64_t waiter_gone_ns_max = 100 * base::ns_per_ms;
// Lost when it has been silent for so long, which is seen at a tick.
constexpr int64_t noticed_ms_max = timed_silence_ms + peer::Peers::tick_ms;
// Pinged a second after its last byte, at a tick.
constexpr int64_t noticed_idle_ms_max = 1'000 + peer::Peers::tick_ms + noticed_ms_max;
// Workers that are held for some steps, and the way to the caller.
constexpr int64_t timed_slack_ns = 5 * base::ns_per_ms;

enum class Silenced : uint8_t { paused, cut_there, cut_back, cut_both, crashed };

DrawnFleet timed_fleet(io::Random& random, base::PeerFailure on_failure) {
  DrawnFleet fleet = draw_fleet(random, {.nodes = 2, .has_faults = false});
  fleet.on_failure = on_failure;
  fleet.silence_ms = timed_silence_ms;
  fleet.timeout_ms = 2'000;
  fleet.delay_ns_max = way_ns_max;
  fleet.limit = 1'000'000;
  fleet.window_ms = 3'600'000;
  for (std::vector<uint32_t>& list : fleet.lists) std::iota(list.begin(), list.end(), 0U);
  return fleet;
}

class TimedFleet {
 public:
  TimedFleet(uint64_t seed, base::PeerFailure on_failure)
      : random_(seed),
        fleet_(timed_fleet(random_, on_failure)),
        network_(random_),
        disturbances_(fleet_.nodes, {}),
        oracle_(fleet_, disturbances_, network_, failure_) {
    network_.wires().set_delay(0, fleet_.delay_ns_max);
    for (uint16_t node = 0; node < fleet_.nodes; ++node) {
      nodes_.push_back(std::make_unique<Node>(node, fleet_, oracle_, network_, failure_));
      nodes_.back()->start();
    }
    pass(connected_ns);
  }

  Node& node(uint32_t number) { return *nodes_[number]; }
  io::Random& random() { return random_; }
  FleetOracle& oracle() { return oracle_; }
  std::string failure() const { return failure_.text(); }
  int64_t now_ns() const { return network_.clock().monotonic_ns; }

  void silence(Silenced how) {
    const io::SimRoute there{.from = asked_node, .to = silent_node};
    const io::SimRoute back{.from = silent_node, .to = asked_node};
    if (how == Silenced::paused) node(silent_node).set_paused(true);
    if (how == Silenced::crashed) node(silent_node).crash();
    if (how == Silenced::cut_there || how == Silenced::cut_both) network_.cut(there);
    if (how == Silenced::cut_back || how == Silenced::cut_both) network_.cut(back);
  }

  // Returns how long it took, or base::never_ns.
  int64_t time_until(const std::function<bool()>& is_true, int64_t most_ns) {
    const int64_t begin_ns = now_ns();
    while (!is_true()) {
      if (now_ns() - begin_ns > most_ns || failure_) return base::never_ns;
      step();
    }
    return now_ns() - begin_ns;
  }
  void pass(int64_t ns) {
    const int64_t until_ns = now_ns() + ns;
    while (now_ns() < until_ns && !failure_) step();
  }

  std::string key_of(uint32_t owner, const std::string& prefix) const {
    for (int number = 0;; ++number) {
      std::string key = prefix + std::to_string(number);
      if (oracle_.owner_of(asked_node, key) == owner) return key;
    }
  }

 private:
  bool is_asleep() {
    return std::ranges::all_of(nodes_,
                               [](const auto& node) { return !node->runs() || node->is_asleep(); });
  }
  void step() {
    network_.wires().move(now_ns());
    for (const auto& node : nodes_) {
      if (node->runs()) node->step();
    }
    int64_t step_ns = random_.between(0, timed_step_ns_max);
    if (is_asleep()) {
      int64_t next_ns = network_.wires().due_ns(now_ns());
      for (const auto& node : nodes_) {
        if (node->runs()) next_ns = std::min(next_ns, node->wakes_ns());
      }
      step_ns = std::clamp<int64_t>(next_ns - now_ns(), 1, timed_idle_ns_max);
    }
    network_.advance(step_ns);
  }

  io::Random random_;
  Failure failure_;
  const DrawnFleet fleet_;
  io::SimNetwork network_;
  Disturbances disturbances_;
  FleetOracle oracle_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// Asks the node over one connection.
class TimedCaller {
 public:
  explicit TimedCaller(TimedFleet& fleet)
      : fleet_(fleet), client_(fleet.node(asked_node).connect(server::http_listener)) {
    fleet_.time_until([this] { return client_.accepted(); }, 10 * base::ns_per_s);
  }

  void send(const std::string& target) {
    client_.write("POST /rate/" + target + " HTTP/1.1\r\nHost: node\r\n\r\n");
  }
  // Returns how long the answer took; status() is the answer's then.
  int64_t ask(const std::string& target) {
    send(target);
    return fleet_.time_until([this] { return has_answer(); }, 30 * base::ns_per_s);
  }
  // 0: there was no answer.
  int status() const { return answer_ ? answer_->status : 0; }
  bool is_degraded() const { return answer_ && answer_->is_degraded; }
  // The caller leaves.
  void leave() { fleet_.random().chance(0.5) ? client_.close() : client_.reset(); }

 private:
  bool has_answer() {
    client_.read(inbox_);
    answer_ = take_rest_answer(inbox_);
    return answer_.has_value();
  }

  TimedFleet& fleet_;
  io::SimClient client_;
  Bytes inbox_;
  std::optional<RestAnswer> answer_;  // to the last request
};

int64_t percentile_ns(std::vector<int64_t> times, size_t percent) {
  std::ranges::sort(times);
  return times[times.size() * percent / 100];
}

void report(const char* what, int64_t ns, int64_t most_ns) {
  std::printf("%9.3f ms (at most %.0f) %s\n", static_cast<double>(ns) / base::ns_per_ms,
              static_cast<double>(most_ns) / base::ns_per_ms, what);
  EXPECT_LE(ns, most_ns) << what;
}

class FleetTimes : public ::testing::TestWithParam<std::tuple<Silenced, base::PeerFailure>> {
 protected:
  static Silenced how() { return std::get<0>(GetParam()); }
  static base::PeerFailure policy() { return std::get<1>(GetParam()); }

  // The owner has answered once.
  static void begin(TimedCaller& caller, const std::string& key) {
    caller.ask(key);
    ASSERT_EQ(caller.status(), 200);
    ASSERT_FALSE(caller.is_degraded());
  }
  static void expect_policy(const TimedCaller& caller) {
    using enum base::PeerFailure;
    EXPECT_EQ(caller.status(), policy() == error ? 502 : policy() == closed ? 429 : 200);
    EXPECT_EQ(caller.is_degraded(), policy() == open);
  }
  // Of requests that come one by one for some seconds, while the owner is tried again.
  static void expect_fast_failures(TimedFleet& fleet, TimedCaller& caller, const std::string& key) {
    std::vector<int64_t> times;
    for (int asked = 0; asked < 500; ++asked) {
      fleet.pass(fleet.random().between(0, 20 * base::ns_per_ms));
      times.push_back(caller.ask(key));
      expect_policy(caller);
      if (::testing::Test::HasFailure()) return;
    }
    report("an answer by the policy, p99", percentile_ns(times, 99), failure_ns_p99);
    std::printf("%9.3f ms the slowest of 500\n",
                static_cast<double>(*std::ranges::max_element(times)) / base::ns_per_ms);
  }
};

TEST_P(FleetTimes, an_owner_that_owes_an_answer_is_noticed_and_then_answered_for_at_once) {
  for (uint64_t seed = 1; seed <= timed_seeds; ++seed) {
    SCOPED_TRACE(seed);
    TimedFleet fleet(seed, policy());
    TimedCaller caller(fleet);
    const std::string key = fleet.key_of(silent_node, "k");
    begin(caller, key);
    if (HasFatalFailure()) return;
    fleet.pass(fleet.random().between(0, 2 * base::ns_per_s));
    fleet.silence(how());
    const bool ends_at_once = how() == Silenced::crashed;
    report("noticed", caller.ask(key),
           (ends_at_once ? 0 : noticed_ms_max * base::ns_per_ms) + timed_slack_ns);
    expect_policy(caller);
    expect_fast_failures(fleet, caller, key);
    ASSERT_EQ(fleet.failure(), "");
    if (HasFailure()) return;
  }
}

TEST_P(FleetTimes, an_owner_that_owes_nothing_is_noticed_before_it_is_asked) {
  for (uint64_t seed = 1; seed <= timed_seeds; ++seed) {
    SCOPED_TRACE(seed);
    TimedFleet fleet(seed, policy());
    TimedCaller caller(fleet);
    const std::string key = fleet.key_of(silent_node, "k");
    begin(caller, key);
    if (HasFatalFailure()) return;
    fleet.pass(fleet.random().between(0, 2 * base::ns_per_s));
    fleet.silence(how());
    fleet.pass(noticed_idle_ms_max * base::ns_per_ms + timed_slack_ns);
    report("the first answer by the policy", caller.ask(key), failure_ns_p99);
    expect_policy(caller);
    ASSERT_EQ(fleet.failure(), "");
    if (HasFailure()) return;
  }
}

std::string name_of(const ::testing::TestParamInfo<FleetTimes::ParamType>& info) {
  static constexpr const char* ways[] = {"paused", "cut_there", "cut_back", "cut_both", "crashed"};
  static constexpr const char* policies[] = {"error", "closed", "local", "open"};
  return std::string(ways[static_cast<size_t>(std::get<0>(info.param))]) + "_" +
         policies[static_cast<size_t>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(
    Each, FleetTimes,
    ::testing::Combine(::testing::Values(Silenced::paused, Silenced::cut_there, Silenced::cut_back,
                                         Silenced::cut_both, Silenced::crashed),
                       ::testing::Values(base::PeerFailure::error, base::PeerFailure::closed,
                                         base::PeerFailure::local, base::PeerFailure::open)),
    name_of);

TEST(FleetWaiterTimes, a_waiter_is_gone_from_its_owner_soon_after_its_caller) {
  for (uint64_t seed = 1; seed <= timed_seeds; ++seed) {
    SCOPED_TRACE(seed);
    TimedFleet fleet(seed, base::PeerFailure::error);
    TimedCaller first(fleet);
    const Node& owner = fleet.node(silent_node);
    int64_t slowest_ns = 0;
    for (int attempt = 0; attempt < 20; ++attempt) {
      const std::string key = fleet.key_of(silent_node, "w" + std::to_string(attempt) + "x");
      first.ask(key + "?maxRequests=1");
      ASSERT_EQ(first.status(), 200);
      TimedCaller caller(fleet);
      Call& call = fleet.oracle().ask(
          {.key = key, .entry_node = asked_node, .op = api::Op::acquire, .may_wait = true});
      caller.send(key + "?canWait=true&maxRequestsInQueue=" + std::to_string(call_mark + call.id));
      ASSERT_NE(fleet.time_until([&] { return owner.waiters_count() == 1; }, base::ns_per_s),
                base::never_ns);
      fleet.pass(fleet.random().between(0, 50 * base::ns_per_ms));
      caller.leave();
      fleet.oracle().left(call);
      slowest_ns = std::max(
          slowest_ns, fleet.time_until([&] { return owner.waiters_count() == 0; }, base::ns_per_s));
    }
    report("a waiter is gone, the slowest of 20", slowest_ns, waiter_gone_ns_max);
    ASSERT_EQ(fleet.failure(), "");
  }
}

}  // namespace
}  // namespace sluice::simulation
