// What the workers of one process share: the mesh, wake-ups, and the number of connections of each.
// Shape:  the worker that places a connection counts it, so that two workers that accept at the
//         same time do not both choose the same third one for long.
// Lives:  made before the first worker, destroyed after the last; each worker's Io is attached from
//         before its first turn until all workers have made their last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "io/io.hpp"
#include "route/mesh.hpp"
#include "server/arrival_clock.hpp"
#include "server/counted_warning.hpp"
#include "server/moved_quota_log.hpp"
#include "server/request_ids.hpp"
#include "server/shortage_log.hpp"
#include "session/ticket_share.hpp"

namespace sluice::server {

class WorkerGroup {
 public:
  explicit WorkerGroup(const route::MeshOptions& options)
      : mesh_(options), members_(std::make_unique<Member[]>(options.shards)) {}

  route::Mesh& mesh() noexcept { return mesh_; }
  RequestIds& ids() noexcept { return ids_; }
  ShortageLog& shortages() noexcept { return shortages_; }
  CountedWarning& misrouted() noexcept { return misrouted_; }
  CountedWarning& calls_dropped() noexcept { return calls_dropped_; }
  MovedQuotaLog& moved_quotas() noexcept { return moved_quotas_; }
  ArrivalClock& arrival_clock() noexcept { return arrival_clock_; }

  void attach(uint32_t shard, io::Io* io) noexcept { members_[shard].io.store(io); }
  void wake(uint32_t shard) noexcept {
    // A worker that is not attached yet checks its mailboxes before it first sleeps.
    if (io::Io* io = members_[shard].io.load()) io->wake();
  }

  // A worker that accepts may place a connection on any other: all begin when each is ready to.
  // Returns whether this one was the last.
  bool note_ready_to_accept() noexcept {
    return ready_to_accept_.fetch_add(1) + 1 == mesh_.shards_count();
  }
  bool are_ready_to_accept() const noexcept {
    return ready_to_accept_.load() == mesh_.shards_count();
  }

  // Bad configuration files that were read while the server was running.
  void count_rules_refused() noexcept { rules_refused_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t rules_refused() const noexcept { return rules_refused_.load(std::memory_order_relaxed); }

  // Connections of one listener on a shard; `add` may be -1.
  void count_connection(uint32_t shard, io::ListenerId listener, int32_t add) noexcept {
    members_[shard].connections[listener].fetch_add(static_cast<uint32_t>(add),
                                                    std::memory_order_relaxed);
  }
  uint32_t connections(uint32_t shard, io::ListenerId listener) const noexcept {
    return members_[shard].connections[listener].load(std::memory_order_relaxed);
  }
  uint32_t connections_of_all() const noexcept;

  // Entries of connections of a shard that wait, as of the end of its last turn.
  void set_waiting(uint32_t shard, session::WaitsFor what, uint32_t count) noexcept {
    members_[shard].waiting[static_cast<size_t>(what)].store(count, std::memory_order_relaxed);
  }
  uint64_t waiting_on_others(uint32_t shard, session::WaitsFor what) const noexcept;

  // The shard with the fewest connections of a listener; `here` unless another has fewer.
  uint32_t least_connected(uint32_t here, io::ListenerId listener) const noexcept;

 private:
  struct alignas(64) Member {
    std::atomic<io::Io*> io{nullptr};
    std::atomic<uint32_t> connections[2] = {0, 0};
    std::atomic<uint32_t> waiting[session::waits_for_count] = {0, 0};
  };

  route::Mesh mesh_;
  RequestIds ids_;
  ShortageLog shortages_;
  CountedWarning misrouted_{misrouted_text};
  CountedWarning calls_dropped_{calls_dropped_text};
  MovedQuotaLog moved_quotas_;
  ArrivalClock arrival_clock_;
  std::atomic<uint64_t> rules_refused_{0};
  std::atomic<uint32_t> ready_to_accept_{0};
  std::unique_ptr<Member[]> members_;
};

inline uint32_t WorkerGroup::connections_of_all() const noexcept {
  uint32_t count = 0;
  for (uint32_t shard = 0; shard < mesh_.shards_count(); ++shard) {
    count += connections(shard, 0) + connections(shard, 1);
  }
  return count;
}

inline uint64_t WorkerGroup::waiting_on_others(uint32_t shard,
                                               session::WaitsFor what) const noexcept {
  uint64_t count = 0;
  for (uint32_t other = 0; other < mesh_.shards_count(); ++other) {
    if (other == shard) continue;
    count += members_[other].waiting[static_cast<size_t>(what)].load(std::memory_order_relaxed);
  }
  return count;
}

inline uint32_t WorkerGroup::least_connected(uint32_t here,
                                             io::ListenerId listener) const noexcept {
  uint32_t best = here;
  for (uint32_t shard = 0; shard < mesh_.shards_count(); ++shard) {
    if (connections(shard, listener) < connections(best, listener)) best = shard;
  }
  return best;
}

}  // namespace sluice::server
