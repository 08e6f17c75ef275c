// Checks every call that a worker makes on its shard against the model, entry by entry, and keeps
// what was decided for whom, so that clients can check what they are told.
// Flow:   worker -> CheckedShard (checked_shard.hpp), which it was handed in place of its shard ->
//         Oracle -> the real shard and the model; clients -> Ledger.
// Errors: the first disagreement is kept as a sentence in `failure`; the run ends on it.
// Shape:  a model per shard. An entry that crosses is decided on another core than it was asked on:
//         its place in its request is found through the origin's SplitBook.
// Lives:  one per run; outlives the workers and their shards.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "shard/key_decider.hpp"
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
  bool reported = false;  // its verdicts have arrived
  std::vector<DecidedEntry> entries;
};

// What was decided for one connection, in that order; clients take off what they were told.
using DecidedRequests = std::list<DecidedRequest>;

class Oracle {
 public:
  // `single_steps`: entries are given to the shard one by one, so that the model can follow what a
  // full table forgets.
  Oracle(const shard::Options& options, bool single_steps, Failure& failure);
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  // The shard of the next core, as its worker shall see it.
  std::unique_ptr<shard::KeyDecider> check(std::unique_ptr<shard::KeyDecider> shard);

  // The workers in the order of their cores, before they do anything. What a worker asks while it
  // is made, which is to adopt its first rules, is not checked: they are the model's.
  void watch(const server::Worker& worker, io::SimIo& io);

  DecidedRequests& decided(uint32_t link) { return decided_[link]; }

  // Whoever waits has a connection: a vanished waiter takes no permit and no place in line. (With
  // several cores it takes a turn or two until the owner hears of it.)
  void check_waiters();

  // From now on: this connection's request ids grow, so its entries for one key have to be decided
  // in their order.
  void watch_order(uint32_t link) { last_decided_[link]; }

  // Ids that clients were told, checked against the order of decisions.
  void told_id(const DecidedEntry& entry, uint64_t request_id);

  // With TRACE set in the environment: a line on stderr, with the time.
  void trace(const std::string& text) const;

  uint64_t entries_count() const { return sequence_; }
  uint64_t by_handle_count() const { return by_handle_; }
  // Interned in vain, for as many handles were held as may be.
  uint64_t handles_full_count() const { return handles_full_; }
  uint32_t waiters_count() const;
  // Grants that reached nobody: credited to their window, and too late for it.
  uint64_t refunded() const { return refunded_; }
  uint64_t refunded_late() const { return refunded_late_; }

  // What a worker asks of the shard of this core.
  void decide(api::ShardId core_id, std::span<const api::Entry> entries,
              const shard::Answers& answers, base::Now now, api::ShardId origin);
  void decide(api::ShardId core_id, std::span<const api::Handle> handles,
              std::span<api::Verdict> verdicts, base::Now now);
  api::Handle intern(api::ShardId core_id, std::string_view key);
  void free_handle(api::ShardId core_id, api::Handle handle);
  std::string_view key_of(api::ShardId core_id, api::Handle handle);
  bool withdraw(api::ShardId core_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin);
  bool abandon(api::ShardId core_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin);
  bool refund(api::ShardId core_id, const api::Permit& permit, base::Now now);
  void drain(api::ShardId core_id, base::Now now);
  void run_due(api::ShardId core_id, base::Now now);
  void keep_grants(api::ShardId core_id, size_t count);
  std::optional<api::KeyState> inspect(api::ShardId core_id, std::string_view key, base::Now now);
  std::unique_ptr<policy::RuleBook> adopt(api::ShardId core_id,
                                          std::unique_ptr<policy::RuleBook> rules, base::Now now);
  shard::Page page(api::ShardId core_id, uint64_t cursor, uint32_t keys_max, base::Now now);

 private:
  struct Waiting {
    uint32_t link;
    DecidedRequest* request;
    size_t entry;
  };

  // A key by number, and how many times it was interned and not let go.
  struct Interned {
    std::string key;
    uint32_t holders = 0;
  };

  struct TestShard {
    TestShard(shard::KeyDecider& of, const shard::Options& options) : shard(of), model(options) {}

    shard::KeyDecider& shard;                // the real one
    const server::Worker* worker = nullptr;  // from watch() on
    io::SimIo* io = nullptr;                 // likewise
    ShardModel model;
    uint64_t evicted_count = 0;
    size_t grants_checked = 0;
    std::map<uint32_t, std::pair<uint32_t, DecidedRequest*>> splits;  // by index: link, request
    std::map<api::Handle, Interned> handles;
    std::map<std::string, api::Handle> numbers;
    size_t runs_done = 0;  // of the turn that is being decided
    size_t requests_done = 0;
  };

  void decide_some(TestShard& shard, std::span<const api::Entry> entries,
                   const shard::Answers& answers, base::Now now, api::ShardId origin);
  void check_answer(const api::Entry& entry, const ShardModel::Answer& expected,
                    api::Verdict verdict, const api::Detail& detail);
  void check_grants(TestShard& shard);
  void check_state(TestShard& shard, const api::KeyState& state, std::string_view key,
                   base::Now now);
  void decide_some(TestShard& shard, std::span<const api::Handle> handles,
                   std::span<api::Verdict> verdicts, base::Now now);
  std::string key_held(const TestShard& shard, api::Handle handle);
  void check_handles(const TestShard& shard);
  template <typename Keep>
  void keep_run(TestShard& shard, bool by_handle, size_t entries_count, Keep keep_entry);
  void keep_entries(TestShard& shard, std::span<const api::Entry> entries,
                    const shard::Answers& answers);
  void keep_handles(TestShard& shard, std::span<const api::Handle> handles,
                    std::span<const api::Verdict> verdicts);
  void keep_message(TestShard& origin, api::ShardId origin_id, const route::ShardMessage& message,
                    const shard::Answers& answers);
  void keep(DecidedRequest& request, uint32_t link, size_t place, const api::Entry& entry,
            api::ShardId origin, api::Verdict verdict, const api::Detail& detail);
  void check_order(uint32_t link, const std::string& key, uint64_t id, size_t place);
  void tell_granted(const ShardModel& model);
  void follow_evictions(TestShard& shard, base::Now now);
  bool is_full(TestShard& shard, base::Now now) const;

  shard::Options options_;
  bool single_steps_;
  Failure& failure_;
  const bool traces_;
  std::vector<TestShard> shards_;
  std::map<uint32_t, DecidedRequests> decided_;  // by link
  std::map<api::Ticket, Waiting> waiting_;       // tickets by which the models know them
  std::map<uint64_t, uint64_t> told_ids_;        // by sequence
  std::set<uint64_t> ids_;
  // By link and key: the id of the request and the entry's place in it.
  std::map<uint32_t, std::map<std::string, std::pair<uint64_t, size_t>>> last_decided_;
  uint64_t sequence_ = 0;
  uint64_t by_handle_ = 0;
  uint64_t handles_full_ = 0;
  uint64_t refunded_ = 0;
  uint64_t refunded_late_ = 0;
};

std::string describe(const api::Detail& detail);
bool same(const api::Detail& one, const api::Detail& other);

}  // namespace sluice::simulation
