// A backend of sessions under test that only records calls about quotas and keys; the test answers
// them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "session/context.hpp"

namespace sluice::session {

// A batch that is not answered yet.
struct Asked {
  uint64_t id;
  std::unique_ptr<api::QuotaBatch> batch;
};

class KeepingBackend final : public Backend {
 public:
  void execute() noexcept override {
    ++executions;
    if (executed) executed();
  }
  // All entries are this shard's.
  bool find_turn_room(const route::KeyColumn&, route::Form, route::Reach) noexcept override {
    return owners_have_room;
  }
  void add(const route::Request& request, const route::KeyColumn&) noexcept override {
    added.push_back(request);
  }
  void send_last() noexcept override {}
  bool find_lone_room(const api::Entry&) noexcept override { return owners_have_room; }
  void send_lone() noexcept override {}
  bool owns(api::Handle handle) const noexcept override {
    return !key_of(handle).starts_with(other_shards_prefix);
  }
  size_t find_keys(std::span<const api::Handle>) noexcept override { return found_bytes; }
  bool find_room_for_keys(size_t) noexcept override { return owners_have_room; }
  void add(const route::Request& request, std::span<const api::Handle>) noexcept override {
    added.push_back(request);
  }
  bool awaits(const Session&, uint64_t id) const noexcept override {
    for (const Asked& asked : batches) {
      if (asked.id == id) return true;
    }
    return false;
  }
  api::Handle intern(std::string_view key) noexcept override {
    const auto place = std::ranges::find(interned, key);
    const auto handle = static_cast<api::Handle>(place - interned.begin());
    if (place == interned.end()) interned.emplace_back(key);
    return handle;
  }
  void drop_reference(api::Handle) noexcept override {}
  void refund(const api::RefundClaim& claim, api::ShardId shard) noexcept override {
    refunds.push_back({claim, shard});
  }
  std::string_view key_of(api::Handle handle) const noexcept override {
    return interned.at(handle);
  }
  void withdraw(WaitingEntry& entry) noexcept override { withdrawn.push_back(entry.ticket); }
  void abandon(WaitingEntry& entry) noexcept override { abandoned.push_back(entry.ticket); }
  uint64_t waiting_on_other_shards(WaitsFor) const noexcept override { return other_waiting; }
  bool may_query() const noexcept override { return has_room; }
  void inspect(Session&, uint64_t, std::string_view key) noexcept override {
    queries.push_back(std::string("inspect ").append(key));
  }
  void page(Session&, uint64_t, uint64_t cursor, uint32_t) noexcept override {
    queries.push_back("page " + std::to_string(cursor));
  }
  void count_keys(Session&, uint64_t) noexcept override { queries.emplace_back("count"); }
  void metrics(Session&, uint64_t) noexcept override { queries.emplace_back("metrics"); }
  bool may_ask_nodes() const noexcept override { return has_room; }
  void ask_nodes(Session&, uint64_t, std::string_view method,
                 std::string_view target) noexcept override {
    queries.push_back(std::string("nodes ").append(method).append(" ").append(target));
  }
  void top(Session&, uint64_t, uint32_t keys_max) noexcept override {
    queries.push_back("top " + std::to_string(keys_max));
  }
  api::QuotaBatch& take_batch() noexcept override {
    batches.push_back({0, std::make_unique<api::QuotaBatch>()});
    return *batches.back().batch;
  }
  api::QuotaBatch& take_node_batch() noexcept override { return take_batch(); }
  void ask(Session&, uint64_t id, api::QuotaBatch& batch) noexcept override {
    EXPECT_EQ(&batch, batches.back().batch.get());
    batches.back().id = id;
    batch.own_texts();  // the test reads it when the frame is gone
    batch.make_answers();
  }
  bool spans_shards(const api::QuotaBatch&) const noexcept override { return spans; }
  void cancel_undelivered(uint64_t reservation) noexcept override {
    cancelled.push_back(reservation);
  }
  void end_binding(uint64_t binding) noexcept override { ended_bindings.push_back(binding); }
  void speak_http2(Session&, std::unique_ptr<Http2Upgrade> upgrade) noexcept override {
    upgrades.push_back(std::move(upgrade));
  }
  void move(Session&, uint32_t) noexcept override {}
  const wire::Topology& topology() const noexcept override { return known_nodes; }

  static constexpr std::string_view other_shards_prefix = "other shard/";  // of keys
  std::deque<std::string> interned;                                        // keys, by handle
  std::vector<std::unique_ptr<Http2Upgrade>> upgrades;  // of connections that go on in HTTP/2
  std::deque<Asked> batches;
  std::vector<route::Request> added;  // with plain entries
  std::vector<std::string> queries;   // shard queries
  std::vector<api::Ticket> withdrawn, abandoned;
  std::vector<uint64_t> cancelled, ended_bindings;
  std::vector<wire::PermitClaim> refunds;
  uint64_t other_waiting = 0;
  size_t found_bytes = 0;
  bool owners_have_room = true;  // those of a request's keys
  uint32_t executions = 0;
  std::function<void()> executed;
  wire::Topology known_nodes;
  bool has_room = true;
  bool spans = false;
};

}  // namespace sluice::session
