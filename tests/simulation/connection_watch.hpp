// Predicts which connections the server ends, when and why, and where each one counts.
// Flow:   worker -> WatchedIo (watched_io.hpp), which it was given in place of its SimIo -> this ->
//         the run's Failure.
// Shape:  an end must have a reason at that moment: no time-out before its time. And a reason that
//         holds must have ended the connection within a turn, by the clock of its shard.
// Errors: the first disagreement is kept in `failure`.
// Lives:  one per run; outlives the workers.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "connection_record.hpp"
#include "io/io.hpp"
#include "oracle.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {

// Ends of connections by their reason, to be counted.
enum class ConnectionEvent : uint8_t {
  peer_left,
  last_request,
  refused,
  hello_timeout,
  half_request_timeout,
  half_frame_timeout,
  late_head,  // of HTTP/2
  idle_timeout,
  drain_answer,
  drain_grace,
  send_timeout,
  linger_timeout,
  drain_over,    // closed because draining took too long
  move_refused,  // the other shard had no slot
};
inline constexpr uint32_t connection_events_count = 14;
std::string_view connection_event_name(ConnectionEvent event);

class ConnectionWatch {
 public:
  ConnectionWatch(const server::WorkerOptions& options, const server::WorkerGroup& group,
                  Failure& failure);
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // For each worker, in the order of their shards.
  void watch(server::Worker& worker);

  ConnectionRecord& of(uint32_t link);
  // Its shard drains; or any shard does, which may refuse entries of all others.
  bool drains(const ConnectionRecord& record) const;
  bool drains_anywhere() const { return first_drain_ms_ != never; }
  const std::array<uint64_t, connection_events_count>& events() const { return events_; }

  // What a worker is about to get, and what it calls. It sleeps only when it has nothing to send.
  void begin_turn(uint32_t shard, bool has_slept, int64_t now_ms);
  void on_event(uint32_t shard, uint32_t link, const io::Event& event, int64_t now_ms);
  void on_delivered(uint32_t link, size_t bytes, int64_t now_ms);
  void on_receive_start(uint32_t link, int64_t now_ms);
  void on_send(uint32_t link, std::span<const std::byte> bytes, int64_t now_ms);
  void on_finish(uint32_t link, int64_t now_ms);
  void on_close(uint32_t link, int64_t now_ms);
  void on_release(uint32_t link);
  void on_adopted(uint32_t shard, uint32_t link, io::SocketId socket, int64_t now_ms);
  void on_discard(uint32_t link, bool had_slot);

  // Before and after the calls of a worker of the same name.
  void begin_drain(uint32_t shard, int64_t now_ms);
  void after_turn(uint32_t shard, int64_t now_ms);

  // When the shard has to end or close a connection, unless something else happens before; the
  // worker must not sleep beyond that. base::never_ms: none.
  int64_t next_due_ms(uint32_t shard) const;

  // No connection is left, and none counts.
  void check_none_left();

 private:
  struct ShardState {
    explicit ShardState(server::Worker& of) : worker(&of) {}
    server::Worker* worker;
    std::array<uint32_t, 2> connections{};  // by listener
    int64_t drain_ms = never;
    int64_t turn_ms = never;         // when its turn began
    int64_t writes_from_ms = never;  // what it sends now was written then at the earliest
  };

  // `accepted` or `closed`, until the worker has got to it.
  struct Pending {
    uint32_t shard;
    uint32_t link;
    bool accepted;
  };

  bool is_http(const ConnectionRecord& record) const;
  void count(ConnectionEvent event) { ++events_[static_cast<uint32_t>(event)]; }
  void count_end(const ConnectionRecord& record);
  void add(const ConnectionRecord& record, int32_t by);
  void apply_until(uint32_t link);
  void place(ConnectionRecord& record);
  void fail(const ConnectionRecord& record, const std::string& text, int64_t now_ms);

  // When time alone ends a connection.
  struct Deadlines {
    int64_t header_ms = base::never_ms;
    int64_t idle_ms = base::never_ms;
    int64_t grace_ms = base::never_ms;
  };

  // A frame of HTTP/2 that the server has to send.
  struct OwedFrame {
    int64_t due_ms = base::never_ms;
    std::string name;
  };

  // How long an idle connection stays while its shard drains (docs/operations.md, "Stop").
  int64_t drain_grace_ms() const { return std::min<int64_t>(200, drain_ms_ / 2); }

  int64_t unfinished_since_ms(const ConnectionRecord& record) const;
  uint32_t may_finish(const ConnectionRecord& record, int64_t now_ms) const;
  uint32_t may_finish_http2(const ConnectionRecord& record, int64_t now_ms) const;
  int64_t http2_idle_ms() const;
  bool awaits_client(const ConnectionRecord& record) const;
  static bool awaits_head(const ConnectionRecord& record);
  bool is_ending(const ConnectionRecord& record) const;
  Deadlines deadlines(const ConnectionRecord& record) const;
  Deadlines http2_deadlines(const ConnectionRecord& record) const;
  static void follow_bodies(ConnectionRecord& record, int64_t now_ms);
  OwedFrame owed_frame(const ConnectionRecord& record) const;
  uint32_t must_finish(const ConnectionRecord& record, int64_t now_ms) const;
  int64_t linger_deadline_ms(const ConnectionRecord& record) const;
  int64_t send_deadline_ms(const ConnectionRecord& record) const;
  int64_t drain_deadline_ms(const ConnectionRecord& record) const;
  bool must_close(const ConnectionRecord& record, int64_t now_ms) const;
  void check_turn(ConnectionRecord& record, int64_t now_ms);
  void follow_catching_up(ConnectionRecord& record, int64_t now_ms);
  void check_bytes(const ConnectionRecord& record, int64_t now_ms);
  void check_counts();

  const session::Options options_;
  const int64_t drain_ms_;
  const uint32_t connections_max_;
  const server::WorkerGroup& group_;
  Failure& failure_;
  std::vector<ShardState> shards_;
  std::deque<ConnectionRecord> records_;  // by link
  std::vector<uint32_t> open_;            // links that are not gone
  std::deque<Pending> pending_;
  int64_t first_drain_ms_ = never;
  std::array<uint64_t, connection_events_count> events_{};
};

}  // namespace sluice::simulation
