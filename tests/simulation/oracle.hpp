// Checks every call that a worker makes on its shard against the model, entry by entry, and keeps
// what was decided for whom, so that clients can check what they are told.
// Flow:   worker -> Shard's methods, wrapped by the linker (shard_calls.cpp) -> Oracle -> the real
//         shard and the model; clients -> Ledger.
// Errors: the first disagreement is kept as a sentence in `failure`; the run ends on it.
// Lives:  one per run, installed while it lives.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "route/turn.hpp"
#include "shard/shard.hpp"
#include "shard_model.hpp"

namespace sluice::simulation {

// The first thing that went wrong in a run.
class Failure {
 public:
  void report(const std::string& text) {
    if (text_.empty()) text_ = text;
  }
  explicit operator bool() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct DecidedEntry {
  uint64_t sequence;  // in the order decided, over all connections
  std::string key;
  api::Op op;
  api::Verdict verdict;
  api::Detail detail;
  api::Verdict outcome = api::Verdict::none;  // of a queued one, once it is known
  api::Detail outcome_detail;
};

struct DecidedRequest {
  uint64_t id;
  bool told = false;  // its verdicts have arrived
  std::vector<DecidedEntry> entries;
};

// What was decided for one connection, in that order; clients take off what they were told.
using DecidedRequests = std::list<DecidedRequest>;

class Oracle {
 public:
  // `single_steps`: entries are given to the shard one by one, so that the model can follow what a
  // full table forgets.
  Oracle(const shard::Options& options, bool single_steps, io::SimIo& io, Failure& failure);
  ~Oracle();
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  // Whose entries the shard is given.
  void watch(const route::Turn& turn) { turn_ = &turn; }

  DecidedRequests& decided(uint32_t link) { return decided_[link]; }

  // Whoever waits has a connection: a vanished waiter takes no permit and no place in line.
  void check_waiters();

  // Ids that clients were told, checked against the order of decisions.
  void told_id(const DecidedEntry& entry, uint64_t request_id);

  // With TRACE set in the environment: a line on stderr, with the time.
  void trace(const std::string& text) const;

  uint64_t entries_count() const { return sequence_; }
  const ShardModel& model() const { return model_; }

  // The wrapped methods.
  void decide(shard::Shard& shard, std::span<const api::Entry> entries,
              const shard::Answers& answers, base::Now now);
  bool withdraw(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket, base::Now now);
  bool abandon(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket, base::Now now);
  void drain(shard::Shard& shard, base::Now now);
  void run_due(shard::Shard& shard, base::Now now);
  void clear_grants(shard::Shard& shard);
  std::optional<api::KeyState> inspect(const shard::Shard& shard, std::string_view key,
                                       base::Now now);
  shard::Page page(shard::Shard& shard, uint64_t cursor, uint32_t keys_max, base::Now now);

 private:
  struct Waiting {
    uint32_t link;
    DecidedRequest* request;
    size_t entry;
  };

  void decide_some(shard::Shard& shard, std::span<const api::Entry> entries,
                   const shard::Answers& answers, base::Now now);
  void check_answer(const api::Entry& entry, const ShardModel::Answer& expected,
                    api::Verdict verdict, const api::Detail& detail);
  void check_grants(const shard::Shard& shard);
  void check_state(const api::KeyState& state, std::string_view key, base::Now now);
  void keep(std::span<const api::Entry> entries, const shard::Answers& answers);
  void follow_evictions(const shard::Shard& shard, base::Now now);
  bool is_full(const shard::Shard& shard, base::Now now) const;

  shard::Options options_;
  bool single_steps_;
  io::SimIo& io_;
  Failure& failure_;
  ShardModel model_;
  const bool traces_;
  const route::Turn* turn_ = nullptr;
  std::map<uint32_t, DecidedRequests> decided_;  // by link
  std::map<api::Ticket, Waiting> waiting_;
  std::map<uint64_t, uint64_t> told_ids_;  // by sequence
  uint64_t sequence_ = 0;
  uint64_t evicted_count_ = 0;
  size_t grants_checked_ = 0;
};

std::string describe(const api::Detail& detail);
bool same(const api::Detail& one, const api::Detail& other);

}  // namespace sluice::simulation
