// Checks every call that a worker makes on its shard against the model, entry by entry, and keeps
// the decisions by connection, so that clients can check their answers.
// Flow:   worker -> CheckedShard (checked_shard.hpp), which it was given in place of its shard ->
//         Oracle -> the real shard and the model; clients -> decided().
// Shape:  a model per shard. An entry of another shard is decided by its owner, not by the shard of
//         its connection: its place in its request is found through the origin's SplitBook.
// Errors: the first disagreement is kept as a sentence in `failure`; the run ends on it.
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

#include "failure.hpp"
#include "handle_book.hpp"
#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "shard/key_decider.hpp"
#include "shard/key_shard.hpp"
#include "shard_model.hpp"

namespace sluice::simulation {

struct DecidedEntry {
  uint64_t sequence;  // in the order of the decisions, over all connections
  std::string key;
  api::Op op;
  api::Verdict verdict;
  api::Detail detail;
  api::Verdict outcome = api::Verdict::none;  // of a queued entry, once it is known
  api::Detail outcome_detail;
};

struct DecidedRequest {
  uint64_t id;
  bool reported = false;  // its verdicts have arrived
  std::vector<DecidedEntry> entries;
};

// The decisions for one connection, in their order; clients remove those that they have received.
using DecidedRequests = std::list<DecidedRequest>;

class Oracle {
 public:
  // `single_steps`: passes entries to the shard one by one, so that the model can follow which keys
  // a full table forgets.
  Oracle(const shard::Options& options, bool single_steps, Failure& failure);
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  // Wraps the next shard: the result is for its worker.
  std::unique_ptr<shard::KeyDecider> check(std::unique_ptr<shard::KeyDecider> shard);

  // For each worker, in the order of their shards, before it runs. The one call of a worker's
  // constructor, to adopt its first rules, is not checked: the model has them already.
  void watch(const server::Worker& worker, io::SimIo& io);

  DecidedRequests& decided(uint32_t link) { return decided_[link]; }

  // Whether a request of this connection waits in a queue.
  bool waits(uint32_t link, uint64_t id) const;

  // Every waiter has a connection: when its client leaves it takes no permit and no place in the
  // queue. (With several shards it takes a turn or two until the owner has the notice.)
  void check_waiters();

  // The shard has exactly the model's keys.
  void check_keys(api::ShardId shard_id, base::Now now);

  // The ids of this connection's requests grow: its entries for one key have to be decided in that
  // order, whichever shards decide them.
  void watch_order(uint32_t link) { last_decided_[link]; }

  // Checks an id that a client has received against the order of the decisions.
  void check_reported_id(const DecidedEntry& entry, uint64_t request_id);

  // With TRACE set in the environment: writes a line to stderr, with the time.
  void trace(const std::string& text) const;

  uint64_t entries_count() const { return sequence_; }
  uint64_t by_handle_count() const { return by_handle_; }
  // Keys that got no handle because as many as allowed were held.
  uint64_t handles_full_count() const { return handles_full_; }
  uint32_t waiters_count() const;
  // When the shard has to act for a waiter, unless another call comes before.
  int64_t next_due_ms(api::ShardId shard_id) const { return shards_[shard_id].model.next_due_ms(); }
  // Entries that a shard decided when another had ended their connection.
  uint64_t left_behind() const { return left_behind_; }
  // Undelivered grants: refunded to their window, and too late for it.
  uint64_t refunded() const { return refunded_; }
  uint64_t refunded_late() const { return refunded_late_; }

  // The calls of a worker on its shard.
  // `hashes`: of the entries' keys, or none.
  void decide(api::ShardId shard_id, std::span<const api::Entry> entries,
              std::span<const api::KeyHash> hashes, const shard::Answers& answers, base::Now now,
              api::ShardId origin);
  void decide(api::ShardId shard_id, std::span<const api::Handle> handles,
              std::span<api::Verdict> verdicts, base::Now now);
  api::Handle intern(api::ShardId shard_id, std::string_view key);
  void drop_handle_reference(api::ShardId shard_id, api::Handle handle);
  std::string_view key_of(api::ShardId shard_id, api::Handle handle);
  bool withdraw(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin);
  bool abandon(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin);
  bool refund(api::ShardId shard_id, const api::RefundClaim& permit, base::Now now);
  void drain(api::ShardId shard_id, base::Now now);
  void run_due(api::ShardId shard_id, base::Now now);
  void keep_grants(api::ShardId shard_id, size_t count);
  std::optional<api::KeyState> inspect(api::ShardId shard_id, std::string_view key, base::Now now);
  std::unique_ptr<policy::RuleBook> adopt(api::ShardId shard_id,
                                          std::unique_ptr<policy::RuleBook> rules, base::Now now);
  shard::Page page(api::ShardId shard_id, uint64_t cursor, uint32_t keys_max, base::Now now);

 private:
  struct Waiting {
    uint32_t link;
    DecidedRequest* request;
    size_t entry;
  };

  // A request of which other shards decide a part.
  struct Split {
    uint32_t link;
    DecidedRequest* request;
    size_t left;  // entries that are not decided
  };

  struct ShardRecord {
    ShardRecord(shard::KeyDecider& of, const shard::Options& options, Failure& failure)
        : shard(of), model(options), handles(options.handles_max, failure) {}

    shard::KeyDecider& shard;                // the wrapped one
    const server::Worker* worker = nullptr;  // from watch() on
    io::SimIo* io = nullptr;                 // likewise
    ShardModel model;
    uint64_t evicted_count = 0;
    bool drains = false;
    size_t grants_checked = 0;
    std::map<uint32_t, Split> splits;  // by index, until they are decided
    HandleBook handles;
    size_t runs_done = 0;  // of the turn that is being decided
    size_t requests_done = 0;
  };

  void decide_some(ShardRecord& shard, std::span<const api::Entry> entries,
                   std::span<const api::KeyHash> hashes, const shard::Answers& answers,
                   base::Now now, api::ShardId origin);
  void check_drain(const ShardRecord& shard, const api::Entry& entry);
  void check_answer(const api::Entry& entry, const ShardModel::Answer& expected,
                    api::Verdict verdict, const api::Detail& detail);
  void check_grants(ShardRecord& shard);
  void check_state(ShardRecord& shard, const api::KeyState& state, std::string_view key,
                   base::Now now);
  void decide_some(ShardRecord& shard, std::span<const api::Handle> handles,
                   std::span<api::Verdict> verdicts, base::Now now);
  template <typename Keep>
  void keep_run(ShardRecord& shard, bool by_handle, size_t entries_count, Keep keep_entry);
  void keep_entries(ShardRecord& shard, std::span<const api::Entry> entries,
                    const shard::Answers& answers);
  void keep_handles(ShardRecord& shard, std::span<const api::Handle> handles,
                    std::span<const api::Verdict> verdicts);
  void keep_message(ShardRecord& origin, api::ShardId origin_id,
                    const server::EntryDecisions::Serving& serving,
                    std::span<const api::Entry> entries, const shard::Answers& answers);
  DecidedRequest& record_of(ShardRecord& origin, const route::Request& request, uint32_t& link);
  static void count_decided(ShardRecord& origin, uint32_t split, size_t entries_count);
  void keep(DecidedRequest& request, uint32_t link, size_t place, const api::Entry& entry,
            api::ShardId origin, api::Verdict verdict, const api::Detail& detail);
  void check_order(uint32_t link, const std::string& key, uint64_t id, size_t place);
  void record_granted(const ShardModel& model);
  void follow_evictions(ShardRecord& shard, base::Now now);
  bool is_full(ShardRecord& shard, base::Now now) const;

  shard::Options options_;
  bool single_steps_;
  Failure& failure_;
  const bool traces_;
  std::vector<ShardRecord> shards_;
  std::map<uint32_t, DecidedRequests> decided_;  // by link
  std::map<api::Ticket, Waiting> waiting_;       // by the models' tickets
  std::map<uint64_t, uint64_t> reported_ids_;    // by sequence
  std::set<uint64_t> ids_;
  // By link and key: the id of the request and the entry's place in it.
  std::map<uint32_t, std::map<std::string, std::pair<uint64_t, size_t>>> last_decided_;
  uint64_t sequence_ = 0;
  uint64_t by_handle_ = 0;
  uint64_t handles_full_ = 0;
  uint64_t left_behind_ = 0;
  uint64_t refunded_ = 0;
  uint64_t refunded_late_ = 0;
};

std::string describe(const api::Detail& detail);
bool same(const api::Detail& one, const api::Detail& other);

}  // namespace sluice::simulation
