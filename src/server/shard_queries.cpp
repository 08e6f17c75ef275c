#include "server/shard_queries.hpp"

#include "base/limits.hpp"
#include "server/metrics.hpp"
#include "server/shard_cursor.hpp"
#include "wire/content_type.hpp"

namespace sluice::server {

ShardQueries::ShardQueries(session::Context& context, SessionTable& sessions,
                           route::Mailboxes& mailboxes, shard::KeyDecider& keys,
                           const ShardStatisticsSource& statistics_source, TaskSlots& slots)
    : context_(context),
      sessions_(sessions),
      mailboxes_(mailboxes),
      keys_(keys),
      statistics_source_(statistics_source),
      pool_(slots) {
  metrics_text_.reserve(
      limits::metrics_bytes_max(mailboxes.shards_count(), mailboxes.nodes().nodes_count()));
}

void ShardQueries::inspect(const session::Session& session, uint64_t id,
                           std::string_view key) noexcept {
  ShardQuery& query = take(session, id, ShardQuery::Kind::key);
  query.key.assign(key);
  query.shard = mailboxes_.shard_of(key);
  send(query);
}

void ShardQueries::page(const session::Session& session, uint64_t id, uint64_t cursor,
                        uint32_t keys_max) noexcept {
  ShardQuery& query = take(session, id, ShardQuery::Kind::page);
  const ShardCursor from = ShardCursor::of(cursor);
  query.shard = from.shard;
  query.cursor = from.place;
  query.keys_max = keys_max;
  if (query.shard >= mailboxes_.shards_count()) {  // not a cursor of this server: behind the end
    query.shard = mailboxes_.shards_count() - 1;
    query.keys_max = 0;
  }
  send(query);
}

void ShardQueries::count_keys(const session::Session& session, uint64_t id) noexcept {
  send(take(session, id, ShardQuery::Kind::count));
}

void ShardQueries::metrics(const session::Session& session, uint64_t id) noexcept {
  send(take(session, id, ShardQuery::Kind::metrics));
}

void ShardQueries::top(const session::Session& session, uint64_t id, uint32_t keys_max) noexcept {
  ShardQuery& query = take(session, id, ShardQuery::Kind::top);
  query.keys_max = keys_max;
  send(query);
}

ShardQuery& ShardQueries::take(const session::Session& session, uint64_t id,
                               ShardQuery::Kind kind) noexcept {
  ShardQuery& query = pool_.take(Asker{session.connection().socket(), id});
  query.kind = kind;
  query.shard = 0;
  query.clear_answer();
  return query;
}

void ShardQueries::send(ShardQuery& query) noexcept {
  if (query.shard != mailboxes_.shard()) {
    return mailboxes_.post(static_cast<api::ShardId>(query.shard), &query);
  }
  answer(query);
  on_answered(query);
}

void ShardQueries::answer(ShardQuery& query) noexcept {
  switch (query.kind) {
    case ShardQuery::Kind::key:
      if (const auto state = keys_.inspect(query.key, context_.now)) query.add(*state);
      break;
    case ShardQuery::Kind::page:
      if (query.keys_max > 0) {
        const shard::Page page = keys_.page(query.cursor, query.keys_max, context_.now);
        for (const api::KeyState& state : page.keys) query.add(state);
        query.next_cursor = page.next_cursor;
      }
      break;
    case ShardQuery::Kind::top:
      merge(keys_.heaviest_keys(query.keys_max, context_.now), mailboxes_.shard(), query.keys_max,
            query.top_keys);
      query.statistics.push_back(statistics_source_.shard_statistics());
      break;
    case ShardQuery::Kind::metrics:
      statistics_source_.add_node_statistics(query.nodes);
      [[fallthrough]];
    case ShardQuery::Kind::count:
      query.statistics.push_back(statistics_source_.shard_statistics());
      break;
  }
  query.point_keys();
}

void ShardQueries::on_answered(ShardQuery& query) noexcept {
  if (query.is_of_all() && query.shard + 1 < mailboxes_.shards_count()) {
    ++query.shard;
    return send(query);
  }
  reply(query);
  pool_.free(query);
  context_.room_made = true;
}

void ShardQueries::reply(ShardQuery& query) noexcept {
  const uint64_t id = query.asker->id;
  session::Session* session = sessions_.find(query.asker->socket);
  if (session == nullptr || session->ended()) return;
  switch (query.kind) {
    case ShardQuery::Kind::key:
      session->on_inspected(id, query.states.empty() ? nullptr : query.states.data());
      return;
    case ShardQuery::Kind::page:
      session->on_page(id, query.states, next_cursor(query));
      return;
    case ShardQuery::Kind::metrics:
      write_metrics({.shards = query.statistics,
                     .nodes = query.nodes,
                     .process = statistics_source_.process_statistics()},
                    metrics_text_);
      session->on_text(id, "text/plain; version=0.0.4", metrics_text_);
      return;
    case ShardQuery::Kind::top:
      session->on_text(id, wire::application_json, write_top(query.statistics, query.top_keys));
      return;
    case ShardQuery::Kind::count: {
      uint64_t count = 0;
      for (const ShardStatistics& shard : query.statistics) count += shard.keys;
      session->on_counted(id, count);
      return;
    }
  }
}

// The cursor of the next page: in this shard, or at the start of the next one. 0: there is none.
uint64_t ShardQueries::next_cursor(const ShardQuery& query) const noexcept {
  if (query.next_cursor != 0) {
    return ShardCursor{.shard = query.shard, .place = query.next_cursor}.number();
  }
  if (query.shard + 1 == mailboxes_.shards_count()) return 0;
  return ShardCursor{.shard = query.shard + 1}.number();
}

}  // namespace sluice::server
