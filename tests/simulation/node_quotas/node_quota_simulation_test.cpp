// Goal: quotas over several nodes are never exceeded, whatever happens to the nodes and the ways
//       between them, and nothing stays held in the end.
// Method: two, three and five nodes of one to three shards in one thread, over routes that are cut
//         and heal, connections that are reset, nodes that pause, crash and start again; clients
//         of every node ask for subjects of every node. Each seed draws its own disturbances.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "log/log.hpp"
#include "quota_caller.hpp"
#include "quota_node.hpp"
#include "tests/support/seeds.hpp"

namespace sluice::simulation {
namespace {

#ifdef SLUICE_ADDRESS_SANITIZER
constexpr uint64_t seeds_of_a_run = 2;  // of two nodes 1; of more only the fresh ones
constexpr uint64_t fresh_seeds_of_a_run = 1;
#else
constexpr uint64_t seeds_of_a_run = 20;
constexpr uint64_t fresh_seeds_of_a_run = 1;
#endif
constexpr int64_t run_ns = 12 * base::ns_per_s;
// Lifetimes are 40 s, and what nodes owe each other is repeated for 30 s.
constexpr int64_t quiet_ns = 90 * base::ns_per_s;
constexpr int64_t step_ns_max = 400 * base::ns_per_us;
constexpr int64_t quiet_step_ns = 5 * base::ns_per_ms;
constexpr size_t callers_max = 8;
constexpr double act_share = 0.1;

struct Counts {
  uint64_t reserved = 0, consumed = 0, queued = 0, granted = 0, unreachable = 0, repeated = 0,
           bound = 0, spread = 0, waiting_spread = 0, granted_spread = 0, cuts = 0, pauses = 0,
           crashes = 0, resets = 0;
};

class QuotaRun {
 public:
  QuotaRun(uint64_t seed, uint32_t nodes)
      : random_(seed),
        network_(random_),
        oracle_(nodes),
        world_{.random = random_,
               .oracle = oracle_,
               .subjects = subjects(),
               .open = {},
               .to_repeat = {}} {
    network_.wires().set_delay(0, random_.below(2) * 5 * base::ns_per_ms);
    for (uint32_t node = 0; node < nodes; ++node) {
      nodes_.push_back(std::make_unique<QuotaNode>(node, nodes, network_));
      nodes_.back()->start();
    }
  }

  void play() {
    plan_next();
    while (now_ns() < io::sim_start.monotonic_ns + run_ns && is_right()) step();
    calm();
    const int64_t until_ns = now_ns() + quiet_ns;
    while (now_ns() < until_ns && is_right()) quiet_step();
    if (is_right()) check_end();
  }
  const std::string& failure() const { return oracle_.failure(); }
  Counts counts() const {
    Counts counts = counts_;
    counts.reserved = oracle_.reserved();
    counts.consumed = oracle_.consumed();
    counts.queued = world_.queued;
    counts.granted = world_.granted;
    counts.unreachable = world_.unreachable;
    counts.repeated = world_.repeated;
    counts.bound = world_.bound;
    counts.spread = world_.spread;
    counts.waiting_spread = world_.waiting_spread;
    counts.granted_spread = world_.granted_spread;
    return counts;
  }

 private:
  struct Mending {
    int64_t due_ns;
    std::function<void()> mend;
  };

  static std::vector<std::string> subjects() {
    std::vector<std::string> names;
    for (int i = 0; i < 8; ++i) names.push_back("subject" + std::to_string(i));
    return names;
  }
  int64_t now_ns() const { return network_.clock().monotonic_ns; }
  bool is_right() const { return oracle_.failure().empty(); }

  void turn_nodes() {
    world_.now_ns = now_ns();
    network_.wires().move(now_ns());
    for (const auto& node : nodes_) node->turn();
  }
  void step() {
    disturb();
    connect_some();
    turn_nodes();
    for (const auto& caller : callers_) {
      if (random_.chance(act_share)) caller->act();
      caller->receive();
    }
    std::erase_if(callers_, [](const auto& caller) { return caller->is_over(); });
    network_.advance(random_.between(0, step_ns_max));
  }
  void quiet_step() {
    mend_due();
    turn_nodes();
    for (const auto& caller : callers_) caller->receive();
    network_.advance(quiet_step_ns);
  }
  void connect_some() {
    if (callers_.size() >= callers_max || !random_.chance(0.1)) return;
    QuotaNode& node = *nodes_[random_.below(nodes_.size())];
    if (!node.has_started() || node.is_paused) return;
    callers_.push_back(std::make_unique<QuotaCaller>(world_, node, node.connect()));
  }

  // --- disturbances

  void plan_next() { next_ns_ = now_ns() + random_.between(0, 2 * base::ns_per_s); }
  void mend_later(std::function<void()> mend) {
    const int64_t most_ns = random_.chance(0.4) ? 3 * base::ns_per_s : 200 * base::ns_per_ms;
    mendings_.push_back({now_ns() + random_.between(1, most_ns), std::move(mend)});
  }
  void mend_due() {
    for (size_t i = 0; i < mendings_.size();) {
      if (mendings_[i].due_ns > now_ns()) {
        ++i;
        continue;
      }
      const auto mend = std::move(mendings_[i].mend);
      mendings_.erase(mendings_.begin() + static_cast<ptrdiff_t>(i));
      mend();
    }
  }
  void disturb() {
    network_.wires().set_reset_rate(0);
    mend_due();
    if (now_ns() < next_ns_) return;
    plan_next();
    const auto node = static_cast<uint32_t>(random_.below(nodes_.size()));
    const uint64_t dice = random_.below(100);
    if (dice < 50) return cut(node);
    if (dice < 75) return pause(node);
    if (dice < 90) {
      ++counts_.resets;
      return network_.wires().set_reset_rate(0.3);
    }
    crash(node);
  }
  void cut(uint32_t node) {
    const uint32_t other = (node + 1 + static_cast<uint32_t>(random_.below(nodes_.size() - 1))) %
                           static_cast<uint32_t>(nodes_.size());
    cut_route({.from = node, .to = other});
    if (random_.chance(0.5)) cut_route({.from = other, .to = node});
  }
  void cut_route(io::SimRoute route) {
    if (network_.wires().is_cut(route)) return;
    ++counts_.cuts;
    network_.cut(route);
    mend_later([this, route] { network_.heal(route); });
  }
  void pause(uint32_t node) {
    if (!nodes_[node]->has_started() || nodes_[node]->is_paused) return;
    ++counts_.pauses;
    nodes_[node]->is_paused = true;
    mend_later([this, node] { nodes_[node]->is_paused = false; });
  }
  void crash(uint32_t node) {
    if (!nodes_[node]->has_started()) return;
    ++counts_.crashes;
    nodes_[node]->crash();
    oracle_.on_crash(node);
    std::erase_if(world_.open, [&](const KnownReservation& each) {
      const bool is_home = oracle_.owner_of(each.subjects.front()) == node;
      for (const std::string& subject : each.subjects) {
        if (is_home) oracle_.on_ending(subject, each.number);
      }
      return is_home;
    });
    mend_later([this, node] { nodes_[node]->start(); });
  }

  // --- the end

  void calm() {
    network_.wires().set_reset_rate(0);
    for (const auto& caller : callers_) caller->leave();
  }
  void check_end() {
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      const std::string name = "node " + std::to_string(node);
      if (nodes_[node]->open_reservations() > 0) oracle_.fail(name + " has open reservations");
      if (!nodes_[node]->is_idle()) oracle_.fail(name + " is not idle");
    }
  }

  io::Random random_;
  io::SimNetwork network_;
  QuotaOracle oracle_;
  QuotaWorld world_;
  std::vector<std::unique_ptr<QuotaNode>> nodes_;
  std::vector<std::unique_ptr<QuotaCaller>> callers_;
  std::vector<Mending> mendings_;
  int64_t next_ns_ = 0;
  Counts counts_;
};

void add(Counts& to, const Counts& from) {
  to.reserved += from.reserved;
  to.consumed += from.consumed;
  to.queued += from.queued;
  to.granted += from.granted;
  to.unreachable += from.unreachable;
  to.repeated += from.repeated;
  to.bound += from.bound;
  to.spread += from.spread;
  to.waiting_spread += from.waiting_spread;
  to.granted_spread += from.granted_spread;
  to.cuts += from.cuts;
  to.pauses += from.pauses;
  to.crashes += from.crashes;
  to.resets += from.resets;
}

void play(const std::string& test, uint32_t nodes) {
  Counts all;
  const std::vector<uint64_t> seeds =
      test::seeds_to_play({.test = test,
                           .tests = {"two_nodes", "three_nodes", "five_nodes"},
                           .red_seeds = "tests/simulation/node_quotas/red_seeds.txt",
                           .seeds_count = seeds_of_a_run / nodes,
                           .fresh_seeds_count = fresh_seeds_of_a_run});
  for (const uint64_t seed : seeds) {
    QuotaRun run(seed, nodes);
    run.play();
    ASSERT_EQ(run.failure(), "") << "repeat with SEED=" << seed
                                 << " and keep it in tests/simulation/node_quotas/red_seeds.txt";
    add(all, run.counts());
  }
  std::printf(
      "%lu reserved, %lu bound, %lu consumed, %lu queued, %lu granted, %lu unreachable, "
      "%lu repeated, %lu over several nodes, of which %lu waited and %lu of these were admitted; "
      "%lu cuts, %lu pauses, %lu crashes, %lu resets\n",
      all.reserved, all.bound, all.consumed, all.queued, all.granted, all.unreachable, all.repeated,
      all.spread, all.waiting_spread, all.granted_spread, all.cuts, all.pauses, all.crashes,
      all.resets);
  if (seeds.size() < 10) return;  // one seed may have none of these
  for (const uint64_t count : {all.reserved, all.bound, all.consumed, all.queued, all.granted,
                               all.unreachable, all.repeated, all.spread, all.waiting_spread,
                               all.granted_spread, all.cuts, all.pauses, all.crashes, all.resets}) {
    EXPECT_GT(count, 0U);
  }
}

TEST(NodeQuotas, two_nodes) {
  play("two_nodes", 2);
}
TEST(NodeQuotas, three_nodes) {
  play("three_nodes", 3);
}
TEST(NodeQuotas, five_nodes) {
  play("five_nodes", 5);
}

}  // namespace
}  // namespace sluice::simulation
