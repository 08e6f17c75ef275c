// The worker as its sessions see it: passes each call to the part of the worker that answers it.
// Lives:  one per worker; made before the parts, which live as long.
#pragma once

#include <memory>
#include <utility>

#include "peer/topology_book.hpp"
#include "route/entry_router.hpp"
#include "route/mailboxes.hpp"
#include "server/connection_placement.hpp"
#include "server/entry_decisions.hpp"
#include "server/node_queries.hpp"
#include "server/quota_tasks.hpp"
#include "server/session_runner.hpp"
#include "server/shard_queries.hpp"
#include "server/task_pool.hpp"
#include "server/waiter_delivery.hpp"
#include "server/worker_group.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

// The parts of a worker that sessions use.
struct WorkerParts {
  const WorkerGroup& worker_group;
  shard::KeyDecider& keys;
  route::Mailboxes& mailboxes;
  route::EntryRouter& router;
  EntryDecisions& decisions;
  WaiterDelivery& waiters;
  TaskSlots& tasks;
  ShardQueries& queries;
  NodeQueries& node_queries;
  QuotaTasks& quota_tasks;
  ConnectionPlacement& placement;
  const peer::TopologyBook& topology;
  SessionRunner& runner;
};

class SessionBackend final : public session::Backend {
 public:
  explicit SessionBackend(const WorkerParts& parts) noexcept : parts_(parts) {}

  // Entries.
  void execute() noexcept override { parts_.decisions.execute(); }
  bool find_turn_room(const route::KeyColumn& keys, route::Form form,
                      route::Reach reach) noexcept override {
    return parts_.router.find_room(keys, form, reach);
  }
  void add(const route::Request& request, const route::KeyColumn& keys) noexcept override {
    parts_.router.add(request, keys);
  }
  void send_last() noexcept override { parts_.router.send_last(); }
  bool find_lone_room(const api::Entry& entry) noexcept override {
    return parts_.router.find_lone_room(entry);
  }
  void send_lone() noexcept override { parts_.router.send_lone(); }
  bool awaits(const session::Session& session, uint64_t id) const noexcept override {
    const io::SocketId socket = session.connection().socket();
    const Asker asker{socket, id};
    return parts_.router.book().holds(socket.index, socket.generation, id) ||
           parts_.queries.awaits(asker) || parts_.quota_tasks.awaits(asker);
  }

  // Handles.
  size_t find_keys(std::span<const api::Handle> handles) noexcept override {
    return parts_.router.find_keys(
        handles, [this](std::span<const api::Handle> others, const api::HeldKeys& keys) {
          return parts_.keys.look_up(others, keys);
        });
  }
  bool find_room_for_keys(size_t entries_count) noexcept override {
    return parts_.router.find_room_for_keys(entries_count);
  }
  void add(const route::Request& request, std::span<const api::Handle> handles) noexcept override {
    parts_.router.add(request, handles);
  }
  api::Handle intern(std::string_view key) noexcept override {
    const api::Handle handle = parts_.keys.intern(key);
    if (handle != api::no_handle) parts_.router.set_handle(handle, key);
    return handle;
  }
  bool owns(api::Handle handle) const noexcept override { return parts_.router.owns(handle); }
  void drop_reference(api::Handle handle) noexcept override {
    parts_.keys.drop_handle_reference(handle);
  }
  std::string_view key_of(api::Handle handle) const noexcept override {
    return parts_.keys.key_of(handle);
  }

  // Waiters.
  void withdraw(session::WaitingEntry& entry) noexcept override { parts_.waiters.withdraw(entry); }
  void abandon(session::WaitingEntry& entry) noexcept override { parts_.waiters.abandon(entry); }

  uint64_t waiting_on_other_shards(session::WaitsFor what) const noexcept override {
    return parts_.worker_group.waiting_on_others(parts_.mailboxes.shard(), what);
  }

  // Queries of shards.
  bool may_query() const noexcept override { return parts_.tasks.has_room(); }
  void inspect(session::Session& session, uint64_t id, std::string_view key) noexcept override {
    parts_.queries.inspect(session, id, key);
  }
  void page(session::Session& session, uint64_t id, uint64_t cursor,
            uint32_t keys_max) noexcept override {
    parts_.queries.page(session, id, cursor, keys_max);
  }
  void count_keys(session::Session& session, uint64_t id) noexcept override {
    parts_.queries.count_keys(session, id);
  }
  void metrics(session::Session& session, uint64_t id) noexcept override {
    parts_.queries.metrics(session, id);
  }
  void top(session::Session& session, uint64_t id, uint32_t keys_max) noexcept override {
    parts_.queries.top(session, id, keys_max);
  }

  bool may_ask_nodes() const noexcept override { return parts_.node_queries.has_room(); }
  void ask_nodes(session::Session& session, uint64_t id, std::string_view method,
                 std::string_view target) noexcept override {
    parts_.node_queries.ask(session, id, method, target);
  }

  void refund(const api::RefundClaim& claim, api::ShardId shard) noexcept override {
    parts_.waiters.refund(claim, shard);
  }

  // Quotas.
  api::QuotaBatch& take_batch() noexcept override { return parts_.quota_tasks.take_batch(); }
  api::QuotaBatch& take_node_batch() noexcept override {
    return parts_.quota_tasks.take_node_batch();
  }
  void ask(session::Session& session, uint64_t id, api::QuotaBatch& batch) noexcept override {
    parts_.quota_tasks.ask(session, id, batch);
  }
  bool spans_shards(const api::QuotaBatch& batch) const noexcept override {
    return parts_.quota_tasks.spans_shards(batch);
  }
  void cancel_undelivered(uint64_t reservation) noexcept override {
    parts_.quota_tasks.cancel_undelivered(reservation);
  }
  void end_binding(uint64_t binding) noexcept override { parts_.quota_tasks.end_binding(binding); }

  const wire::Topology& topology() const noexcept override { return parts_.topology.topology(); }

  // Connections.
  void speak_http2(session::Session& session,
                   std::unique_ptr<session::Http2Upgrade> upgrade) noexcept override {
    parts_.runner.speak_http2(session, std::move(upgrade));
  }
  void move(session::Session& session, uint32_t shard) noexcept override {
    parts_.placement.move(session, shard);
  }

 private:
  const WorkerParts parts_;
};

}  // namespace sluice::server
