// One core's loop: bytes in, a turn's entries decided together, answers out.
// Flow:   turn(): Io::poll() -> sessions -> execute(): shard -> sessions -> due timers -> flush.
// Shape:  owns one shard and every session of its sockets; talks to the kernel through Io only, so
//         that the simulator can drive it.
// Errors: the constructor throws when memory cannot be had; nothing else does.
// Lives:  one thread; `io` outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "io/io.hpp"
#include "server/request_ids.hpp"
#include "server/session_table.hpp"
#include "session/context.hpp"
#include "shard/shard.hpp"

namespace sluice::server {

inline constexpr io::ListenerId http_listener = 0;
inline constexpr io::ListenerId native_listener = 1;

// Connections above --max-connections that are told so before they are ended.
inline constexpr uint32_t refused_sockets_max = 64;

struct WorkerOptions {
  session::Options sessions;
  shard::Options shard;
  uint32_t connections_max = 10'000;
  int64_t drain_ms = 5'000;
};

struct WorkerStatistics {
  uint64_t accepted = 0;
  uint64_t refused = 0;          // above --max-connections
  uint64_t accept_failures = 0;  // out of descriptors or memory
  uint64_t cut_off = 0;          // still open when draining took too long
  uint64_t turns = 0;
};

class Worker final : private session::Backend {
 public:
  Worker(io::Io& io, const WorkerOptions& options, RequestIds& ids);
  ~Worker();

  // Accepts from now on.
  void start() noexcept;

  // One loop turn; waits for events at most `wait_ns_max`.
  void turn(int64_t wait_ns_max) noexcept;

  // Refuses new work, answers waiters, ends connections; over when drained().
  void begin_drain() noexcept;
  bool drained() const noexcept;

  const WorkerStatistics& statistics() const noexcept { return statistics_; }
  const shard::Shard& shard() const noexcept { return shard_; }
  uint32_t sessions_count() const noexcept { return sessions_.open_count(); }
  uint32_t tickets_count() const noexcept { return context_.waits.tickets_count(); }
  uint32_t waiting_frames_count() const noexcept { return context_.waits.frames_count(); }
  uint64_t reserved_bytes() const noexcept;

  // What is being decided, and for whom: tests check it against a model.
  const route::Turn& undecided() const noexcept { return context_.turn; }

 private:
  // session::Backend
  void execute() noexcept override;
  void withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept override;
  void abandon(api::WaiterId waiter, api::Ticket ticket) noexcept override;
  void inspect(session::Session& session, uint64_t id, std::string_view key) noexcept override;
  void page(session::Session& session, uint64_t id, uint64_t cursor,
            uint32_t keys_max) noexcept override;
  uint64_t keys_count() const noexcept override { return shard_.keys_count(); }
  std::string_view metrics() noexcept override;

  int64_t wait_ns() const noexcept;
  void on_event(const io::Event& event) noexcept;
  void on_accepted(const io::Event& event) noexcept;
  uint64_t count_ids() noexcept;
  void assign_ids(uint64_t next_id) noexcept;
  void deliver_verdicts() noexcept;
  void deliver_grants() noexcept;
  void resume_ready() noexcept;
  void run_timers() noexcept;
  void end_turn() noexcept;
  void check_drain() noexcept;

  io::Io& io_;
  RequestIds& ids_;
  const uint32_t connections_max_;
  const int64_t drain_ms_;
  shard::Shard shard_;
  session::Context context_;
  SessionTable sessions_;
  std::vector<io::Event> events_;
  std::string metrics_text_;
  WorkerStatistics statistics_;
  int64_t drain_deadline_ms_ = 0;
  uint32_t listeners_open_ = 0;
  bool executing_ = false;
};

}  // namespace sluice::server
