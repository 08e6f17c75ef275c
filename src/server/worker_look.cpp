// Views of shards, this core's and others': one key, pages of keys, counters.
#include "base/assert.hpp"
#include "log/log.hpp"
#include "server/look.hpp"
#include "server/metrics.hpp"
#include "server/worker.hpp"

namespace sluice::server {
namespace {

using route::Look;

// A cursor over all shards: the shard stands above the cursor of its table, which has 33 bits.
constexpr uint32_t shard_shift = 40;

}  // namespace

void Worker::inspect(session::Session& session, uint64_t id, std::string_view key) noexcept {
  Look& look = take_look(session, id);
  look.kind = Look::Kind::key;
  look.key.assign(key);
  look.shard = exchange_.owner_of(key);
  send(look);
}

void Worker::page(session::Session& session, uint64_t id, uint64_t cursor,
                  uint32_t keys_max) noexcept {
  Look& look = take_look(session, id);
  look.kind = Look::Kind::page;
  look.shard = static_cast<uint32_t>(cursor >> shard_shift);
  look.cursor = cursor & ((uint64_t{1} << shard_shift) - 1);
  look.keys_max = keys_max;
  if (look.shard >= exchange_.cores()) {  // no cursor of ours: behind the end
    look.shard = exchange_.cores() - 1;
    look.keys_max = 0;
  }
  send(look);
}

void Worker::count_keys(session::Session& session, uint64_t id) noexcept {
  Look& look = take_look(session, id);
  look.kind = Look::Kind::count;
  send(look);
}

void Worker::metrics(session::Session& session, uint64_t id) noexcept {
  Look& look = take_look(session, id);
  look.kind = Look::Kind::metrics;
  send(look);
}

void Worker::top(session::Session& session, uint64_t id, uint32_t keys_max) noexcept {
  Look& look = take_look(session, id);
  look.kind = Look::Kind::top;
  look.keys_max = keys_max;
  send(look);
}

Look& Worker::take_look(const session::Session& session, uint64_t id) noexcept {
  Look& look = take_look();
  const io::SocketId socket = session.connection().socket();
  look.session = socket.index;
  look.generation = socket.generation;
  look.id = id;
  return look;
}

Look& Worker::take_look() noexcept {
  ASSERT(!free_looks_.empty());
  Look& look = *free_looks_.back();
  free_looks_.pop_back();
  look.in_use = true;
  look.origin = static_cast<api::CoreId>(core_);
  look.shard = 0;
  look.next_cursor = 0;
  look.states.clear();
  look.text.clear();
  look.censuses.clear();
  look.top_keys.clear();
  return look;
}

void Worker::send(Look& look) noexcept {
  if (look.shard != core_) return exchange_.post(static_cast<api::CoreId>(look.shard), look);
  answer(look);
  on_answered(look);
}

// At the shard that is asked.
void Worker::answer(Look& look) noexcept {
  switch (look.kind) {
    case Look::Kind::key:
      if (const auto state = keys_->inspect(look.key, context_.now)) look.add(*state);
      break;
    case Look::Kind::page:
      if (look.keys_max > 0) {
        const shard::Page page = keys_->page(look.cursor, look.keys_max, context_.now);
        for (const api::KeyState& state : page.keys) look.add(state);
        look.next_cursor = page.next_cursor;
      }
      break;
    case Look::Kind::top:
      merge(keys_->heaviest_keys(look.keys_max, context_.now), core_, look.keys_max, look.top_keys);
      look.censuses.push_back(census());
      break;
    case Look::Kind::metrics:
    case Look::Kind::count:
      look.censuses.push_back(census());
      break;
    case Look::Kind::quota:
      return decide_quota(look);
  }
  look.point_keys();
}

// Back at the core that asked.
void Worker::on_answered(Look& look) noexcept {
  if (look.kind == Look::Kind::quota) return on_quota_decided(look);
  if (look.is_of_all() && look.shard + 1 < exchange_.cores()) {
    ++look.shard;
    return send(look);
  }
  tell(look);
  give_back(look);
}

void Worker::give_back(Look& look) noexcept {
  look.in_use = false;
  free_looks_.push_back(&look);
  room_made_ = true;
}

void Worker::tell(Look& look) noexcept {
  session::Session* session = sessions_.find({look.session, look.generation});
  if (session == nullptr || session->ended()) return;
  switch (look.kind) {
    case Look::Kind::key:
      session->on_inspected(look.id, look.states.empty() ? nullptr : look.states.data());
      return;
    case Look::Kind::page: {
      uint64_t next = look.next_cursor;
      if (next != 0) {
        next |= uint64_t{look.shard} << shard_shift;
      } else if (look.shard + 1 < exchange_.cores()) {
        next = uint64_t{look.shard + 1} << shard_shift;
      }
      session->on_page(look.id, look.states, next);
      return;
    }
    case Look::Kind::metrics:
      write_metrics(look.censuses,
                    {.rules_refused = crew_.rules_refused(), .log_lines_lost = log::lines_lost()},
                    metrics_text_);
      session->on_text(look.id, "text/plain; version=0.0.4", metrics_text_);
      return;
    case Look::Kind::top:
      session->on_text(look.id, "application/json", write_top(look.censuses, look.top_keys));
      return;
    case Look::Kind::count: {
      uint64_t count = 0;
      for (const Census& census : look.censuses) count += census.keys;
      session->on_counted(look.id, count);
      return;
    }
    case Look::Kind::quota:
      break;  // on_decided()
  }
}

Census Worker::census() const noexcept {
  return {.shard_id = core_,
          .shard = keys_->statistics(),
          .quota = quotas_->statistics(),
          .worker = statistics_,
          .io = io_.statistics(),
          .io_name = io_.name(),
          .rates = rates_.per_second(context_.now.monotonic_ns, keys_->statistics()),
          .keys = keys_->keys_count(),
          .waiters = keys_->waiters_count(),
          .handles = keys_->handles_count(),
          .subjects = quotas_->subjects_count(),
          .reservations = quotas_->reservations_count(),
          .quota_waiters = quotas_->waiters_count(),
          .connections = sessions_.open_count(),
          .drained_entries = context_.drained_entries,
          .handles_refused = context_.handles_refused,
          .crossings = exchange_.crossed_entries(),
          .wakes = exchange_.wakes()};
}

}  // namespace sluice::server
