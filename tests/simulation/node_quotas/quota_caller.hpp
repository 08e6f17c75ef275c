// A client of one node: reserves, extends, consumes, records, checks, waits, ends reservations of
// anybody, and leaves.
// Flow:   act() -> QuotaTalk -> the node; receive() -> its answers -> the oracle, and the run's
//         book of reservations.
// Lives:  until is_over(): it has left, or its node has.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/sim/random.hpp"
#include "quota_event.hpp"
#include "quota_node.hpp"
#include "quota_oracle.hpp"
#include "quota_talk.hpp"

namespace sluice::simulation {

// What the clients of a run share.
struct QuotaWorld {
  static constexpr size_t drawn_subjects = 8;

  io::Random& random;
  QuotaOracle& oracle;
  std::vector<std::string> subjects;  // all so far; new calls are about the last ones
  const bool overdraws = false;       // records may exceed a limit
  const bool loses_answers = true;    // callers leave before they have all
  const bool hoards = false;          // what several nodes have ends while something is disturbed
  std::vector<CallPtr> open;          // reservations that are not bound to a connection
  std::vector<CallPtr> to_repeat;     // under their ids
  std::vector<CallPtr> to_end;        // somebody has asked for it, and does not know the answer
  std::vector<CallPtr> to_probe;      // an extension of them has failed
  bool ends_all = false;              // when it asks for certainty
  bool is_calm_over = false;          // something is about to be disturbed
  uint64_t ids = 0;
  NodeQuotaCounts counts;
};

class QuotaCaller final : public QuotaListener {
 public:
  // `node`: that it is connected to.
  QuotaCaller(QuotaWorld& world, QuotaNode& node);

  void act();
  void receive();
  // A call under an id whose answer nobody knows, or an extension that must fail.
  void ask_for_certainty();
  void leave();
  bool is_over() const { return is_over_; }

 private:
  // A question without an answer.
  struct Asked {
    api::QuotaOp op{};
    bool is_bound = false, may_wait = false, was_queued = false;
    int64_t asked_ns = 0;
    int64_t awake_ns = 0;        // when it was asked, by the clock of its node
    std::vector<CallPtr> calls;  // that charge; the one that is ended or extended
    KnownCall checked;
    std::optional<QuotaOracle::Extension> extension;
  };

  static bool charges(api::QuotaOp op) {
    return op == api::QuotaOp::reserve || op == api::QuotaOp::consume || op == api::QuotaOp::record;
  }
  static bool ends(api::QuotaOp op) {
    return op == api::QuotaOp::settle || op == api::QuotaOp::cancel;
  }
  std::unique_ptr<QuotaTalk> make_talk(QuotaNode& node);
  Asked& ask(const QuotaQuestion& question);
  void act_at_random();
  Subjects draw_subjects();
  uint64_t draw_tokens();
  KnownCall draw_call(api::QuotaOp op);
  void reserve();
  void check();
  void consume();
  void record();
  void ask_charge(const CallPtr& call);
  void repeat();
  void end_one();
  CallPtr take_open();
  void end(const CallPtr& call);
  void end_again();
  void extend_one();
  void extend(const CallPtr& call, uint32_t lifetime_ms);
  bool probe();

  void on_queued(uint64_t question) override;
  void on_answered(uint64_t question, const std::vector<QuotaOutcome>& outcomes) override;
  void on_usage(const SubjectUsage&) override {}  // it does not ask for it
  void on_error(const std::string& text) override { world_.oracle.fail("an error: " + text); }
  void on_charge(const Asked& asked, const CallPtr& call, const QuotaOutcome& outcome);
  void on_ended(const CallPtr& call, api::QuotaCode code);
  void on_extended(const Asked& asked, api::QuotaCode code);
  void probe_later(const CallPtr& call);
  void on_reserved(const Asked& asked, const CallPtr& call, uint64_t reservation);
  bool is_at_home(const KnownCall& call) const {
    return world_.oracle.home_of(call) == node_.number();
  }

  void check_waits();
  bool is_waiting() const;
  void lose(const Asked& asked);
  void forget_all();

  QuotaWorld& world_;
  const QuotaNode& node_;
  const std::unique_ptr<QuotaTalk> talk_;
  std::map<uint64_t, Asked> asked_;  // by number
  std::vector<CallPtr> bound_;       // reservations, to this connection
  const bool is_patient_;            // while it waits it asks for nothing else, and stays
  bool is_over_ = false;
  int64_t rests_until_ns_ = 0;
  int64_t last_ns_ = 0;
  int64_t awake_ns_ = 0;  // for which its node was not paused
};

}  // namespace sluice::simulation
