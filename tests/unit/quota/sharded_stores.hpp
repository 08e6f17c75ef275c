// Several stores of quotas in one thread, and the way of a batch between them: what the workers of
// a server are for, without sessions, mailboxes and waiting.
// Flow:   a batch -> start() -> step() until it is decided; batches may be stepped in any order.
// Shape:  a store for each shard; with one shard batches have a single step.
// Lives:  one thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"
#include "quota/quota_store.hpp"
#include "quota/spread_round.hpp"

namespace sluice::quota {

// A batch under way. Its texts outlive it. It has a connection of its own if the test names none.
struct StoreTask {
  api::QuotaBatch batch;
  uint32_t stop = 0;
  bool is_decided = false;
};

class ShardedStores {
 public:
  ShardedStores(uint32_t shards, Options options) {
    options.shards = shards;
    for (options.shard = 0; options.shard < shards; ++options.shard) {
      stores_.push_back(std::make_unique<QuotaStore>(options));
    }
  }

  uint32_t count() const { return static_cast<uint32_t>(stores_.size()); }
  QuotaStore& operator[](uint32_t shard) { return *stores_[shard]; }
  api::ShardId shard_of(std::string_view name) const {
    return static_cast<api::ShardId>(proto::owner_shard(proto::routing_hash(name, 0), count()));
  }

  void start(StoreTask& task) {
    api::QuotaBatch& batch = task.batch;
    batch.arrival = {.ns = 1, .number = arrivals_};
    if (batch.asker == api::no_asker) batch.asker = next_asker_++;
    arrivals_ += batch.calls.size();
    bool spreads = false;
    for (api::QuotaCall& call : batch.calls) {
      if (api::names_reservation(call.op)) {
        call.shard = static_cast<api::ShardId>(proto::reservation_shard(call.reservation, count()));
      } else if (call.subjects_count > 0) {
        call.shard = shard_of(batch.subjects[call.first_subject]);
      }
      for (uint32_t place = 1; place < call.subjects_count; ++place) {
        spreads |= shard_of(batch.subjects[call.first_subject + place]) != call.shard;
      }
    }
    batch.make_answers();
    if (spreads) {
      spread(batch, [this](auto names, auto stops) {
        std::ranges::transform(names, stops.begin(), [this](auto name) { return shard_of(name); });
      });
    }
    task.stop = next_stop(batch, 0, count());
    task.is_decided = task.stop == count();
  }

  // The shard where the task is has its share, if it need not await a verdict.
  void step(StoreTask& task, base::Now now) {
    stores_[task.stop]->decide(task.batch, now, 0);
    if (task.batch.awaits_verdict) return;
    task.stop = next_stop(task.batch, after_stop(task.batch, task.stop), count());
    task.is_decided = task.stop == count();
  }

  void decide(StoreTask& task, base::Now now) {
    start(task);
    while (!task.is_decided) step(task, now);
  }

  // What is due, and what other shards learn of it.
  void run_due(base::Now now) {
    for (const auto& store : stores_) {
      do {
        store->run_due(now);
      } while (store->next_due_ns() <= now.monotonic_ns);
    }
    finish_own(now);
  }

  // What stores have for others, and waiters to be tried, until nothing is left.
  void finish_own(base::Now now) {
    for (bool is_done = false; !is_done;) {
      is_done = true;
      for (const auto& store : stores_) {
        if (store->outgoing_calls().empty() && !store->has_tries()) continue;
        is_done = false;
        bring_calls(*store, now);
        if (store->has_tries()) try_next(*store, now);
      }
    }
  }
  // The next waiter of the store that is to be tried.
  void start_try(QuotaStore& store, StoreTask& task) const {
    store.next_try(task.batch);
    task.stop = next_stop(task.batch, 0, count());
  }
  void end_try(StoreTask& task, base::Now now) {
    stores_[task.batch.spread.front().home()]->end_try(task.batch, now);
  }

  void check_invariants(base::Now now) const {
    for (const auto& store : stores_) store->check_invariants(now);
  }

 private:
  void try_next(QuotaStore& store, base::Now now) {
    StoreTask task;
    start_try(store, task);
    while (!task.is_decided) step(task, now);
    end_try(task, now);
  }

 public:
  // What a store has for others.
  void bring_calls(QuotaStore& store, base::Now now) {
    for (const api::QuotaCall& call : std::exchange(store.outgoing_calls(), {})) {
      api::QuotaBatch batch;
      batch.calls.push_back(call);
      batch.make_answers();
      stores_[call.shard]->decide(batch, now, 0);
    }
  }

 private:
  std::vector<std::unique_ptr<QuotaStore>> stores_;
  uint64_t arrivals_ = 0;
  uint64_t next_asker_ = 1'000;  // smaller ones are the tests'
};

}  // namespace sluice::quota
