// One of several shards in one thread: the part of a worker that queries and quota calls pass
// through, with a session that asks and has ended before the answer.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/overloaded.hpp"
#include "quota/quota_store.hpp"
#include "server/quota_tasks.hpp"
#include "server/shard_queries.hpp"
#include "server/worker_group.hpp"
#include "shard/key_shard.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/unit/server/fake_quotas.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::server {

class TaskSide final : private ShardStatisticsSource {
 public:
  TaskSide(WorkerGroup& worker_group, api::ShardId shard)
      : TaskSide(worker_group, shard, std::unique_ptr<quota::QuotaStore>()) {}
  // With a store instead of the quotas that admit everything.
  TaskSide(WorkerGroup& worker_group, api::ShardId shard, const quota::Options& with)
      : TaskSide(worker_group, shard, std::make_unique<quota::QuotaStore>(with)) {}
  // One of several nodes.
  TaskSide(WorkerGroup& worker_group, api::ShardId shard, const peer::FleetOptions& fleet)
      : TaskSide(worker_group, shard, std::unique_ptr<quota::QuotaStore>(), {}, fleet) {}
  // Likewise, with a store.
  TaskSide(WorkerGroup& worker_group, api::ShardId shard, const peer::FleetOptions& fleet,
           const quota::Options& with)
      : TaskSide(worker_group, shard, std::make_unique<quota::QuotaStore>(with), {}, fleet,
                 with.name_bytes_max) {}
  // Whose state is kept.
  TaskSide(WorkerGroup& worker_group, api::ShardId shard, const StateOptions& state)
      : TaskSide(worker_group, shard, std::unique_ptr<quota::QuotaStore>(), state) {}

  // Receives, then sends what was posted before and meanwhile.
  void turn() {
    mailboxes.receive(*this);
    mailboxes.flush();
  }
  void on_message(api::ShardId, route::ShardMessage& message) {
    std::erase_if(message.tasks, [this](const route::ShardTask& task) {
      return std::visit(
          base::Overloaded{[this](ShardQuery* query) {
                             queries.answer(*query);
                             return false;
                           },
                           [this](QuotaTask* quota) { return !tasks.on_sent(*quota); },
                           [](StandInTask*) { return false; }},
          task);
    });
  }
  void on_returned(api::ShardId, route::ShardMessage& message) {
    for (const route::ShardTask& task : message.tasks) {
      std::visit(base::Overloaded{[this](ShardQuery* query) { queries.on_answered(*query); },
                                  [this](QuotaTask* quota) { tasks.on_decided(*quota); },
                                  [](StandInTask*) {}},
                 task);
    }
  }
  bool awaits(uint64_t id) const {
    const Asker asker{ended_session.connection().socket(), id};
    return queries.awaits(asker) || tasks.awaits(asker);
  }

  static constexpr int64_t wall_ns = 1'790'000'000 * base::ns_per_s;

  mutable int statistics_taken = 0;  // how often
  uint32_t keys_counted = 1;         // as the statistics report
  uint32_t nodes_counted = 0;        // other nodes, with two links of each shard
  support::FakeIo io{{.monotonic_ns = 0, .wall_ns = wall_ns}};
  route::Mailboxes mailboxes;
  FakeQuotas::Asked asked;
  FakeQuotas quotas;
  const std::unique_ptr<quota::QuotaStore> store;
  shard::KeyShard keys{{.keys_max = 100}};
  session::KeepingBackend backend;
  const session::Options options;
  session::Context context{backend, options};
  SessionTable sessions{{.sockets_max = 1, .key_bytes_max = 64, .shards = 3}};
  WaiterDelivery waiters;
  TaskSlots slots{64};
  ShardQueries queries;
  WindowKeeper windows{{}, {}, keys};
  StateKeeper keeper;
  NodeCalls nodes;
  QuotaTasks tasks;

  // Not in the table, like a session that has ended.
  net::ConnectionMemory memory{1};
  std::vector<char> key = std::vector<char>(64);
  std::vector<char> heads = std::vector<char>(session::RequestLog::memory_bytes);
  session::HttpSession ended_session{context, io, {0, 1}, memory, {.key = key, .log = heads}};
  net::ConnectionMemory other_memory{1};
  // Likewise.
  session::HttpSession other_session{context, io, {1, 1}, other_memory, {.key = key, .log = heads}};

 private:
  TaskSide(WorkerGroup& worker_group, api::ShardId shard, std::unique_ptr<quota::QuotaStore> with,
           const StateOptions& state = {}, const peer::FleetOptions& fleet = {},
           uint32_t key_bytes_max = session::Options{}.key_bytes_max)
      : mailboxes(worker_group.mesh(), shard,
                  {fleet.ownership(), worker_group.mesh().shards_count()}),
        quotas(asked, shard),
        store(std::move(with)),
        options{.key_bytes_max = key_bytes_max, .waiters_max = 10},
        waiters(context, sessions, mailboxes, keys, decider(), 10),
        queries(context, sessions, mailboxes, keys, *this, slots),
        keeper(state, {}, decider(), windows),
        nodes(context, mailboxes, waiters, fleet),
        tasks(io, context, sessions, mailboxes, waiters, decider(), keeper, nodes, fleet, slots,
              worker_group.arrival_clock(), {.cancels_max = 200, .bindings_max = 200}) {}
  quota::QuotaDecider& decider() noexcept {
    if (store != nullptr) return *store;
    return quotas;
  }

  ShardStatistics shard_statistics() const noexcept override {
    ++statistics_taken;
    return {.shard_id = mailboxes.shard(), .keys = keys_counted};
  }
  ProcessStatistics process_statistics() const noexcept override { return {}; }
  void add_node_statistics(std::vector<NodeStatistics>& nodes) const override {
    nodes.resize(nodes_counted);
    for (NodeStatistics& node : nodes) node.counts.links_up += 2;
  }
};

}  // namespace sluice::server
