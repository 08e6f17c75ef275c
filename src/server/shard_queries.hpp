// Queries of sessions about shards, this one and others: one key, pages of keys, counts, /metrics
// and /top.
// Flow:   a session -> a ShardQuery -> answer() at the queried shard -> on_answered() at the shard
//         that asked, which sends it on or replies to the session.
// Shape:  a cursor leads through all shards (shard_cursor.hpp).
// Errors: without a free query (may_query()) the session waits. A session that has ended gets no
//         reply.
// Lives:  one per worker, one thread only. Off the request path: answers allocate (ADR 0004).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "route/mailboxes.hpp"
#include "server/session_table.hpp"
#include "server/shard_query.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

class ShardQueries {
 public:
  ShardQueries(session::Context& context, SessionTable& sessions, route::Mailboxes& mailboxes,
               shard::KeyDecider& keys, const ShardStatisticsSource& statistics_source,
               TaskSlots& slots);

  // As in session::Backend.
  void inspect(const session::Session& session, uint64_t id, std::string_view key) noexcept;
  void page(const session::Session& session, uint64_t id, uint64_t cursor,
            uint32_t keys_max) noexcept;
  void count_keys(const session::Session& session, uint64_t id) noexcept;
  void metrics(const session::Session& session, uint64_t id) noexcept;
  void top(const session::Session& session, uint64_t id, uint32_t keys_max) noexcept;
  bool awaits(const Asker& asker) const noexcept { return pool_.awaits(asker); }

  // At the queried shard.
  void answer(ShardQuery& query) noexcept;
  // At the shard that asked.
  void on_answered(ShardQuery& query) noexcept;

 private:
  ShardQuery& take(const session::Session& session, uint64_t id, ShardQuery::Kind kind) noexcept;
  void send(ShardQuery& query) noexcept;
  void reply(ShardQuery& query) noexcept;
  uint64_t next_cursor(const ShardQuery& query) const noexcept;

  session::Context& context_;
  SessionTable& sessions_;
  route::Mailboxes& mailboxes_;
  shard::KeyDecider& keys_;
  const ShardStatisticsSource& statistics_source_;
  TaskPool<ShardQuery> pool_;
  std::string metrics_text_;
};

}  // namespace sluice::server
