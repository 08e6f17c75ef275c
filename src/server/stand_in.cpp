#include "server/stand_in.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "peer/message_entries.hpp"

namespace sluice::server {

StandIn::StandIn(session::Context& context, route::Mailboxes& mailboxes, shard::KeyDecider& keys)
    : context_(context), mailboxes_(mailboxes), keys_(keys), filling_(mailboxes.shards_count()) {}

void StandIn::begin(peer::PeerTarget& target, peer::Outgoing& outgoing) noexcept {
  const route::ShardMessage& message = outgoing.message;
  peer::for_each_entry(message, 0, message.entries_count(),
                       [&](uint32_t place, const api::Entry& entry) {
                         const bool is_left = message.verdicts(place, 1)[0] == api::Verdict::none;
                         if (is_left) add(target, outgoing, place, entry);
                       });
  const auto is_filled = [](const Task& task) { return task != nullptr; };
  outgoing.stand_ins_left = static_cast<uint32_t>(std::ranges::count_if(filling_, is_filled));
  if (outgoing.stand_ins_left == 0) return target.on_stood_in(outgoing);
  for (uint32_t shard = 0; shard < filling_.size(); ++shard) {
    if (!filling_[shard]) continue;
    StandInTask& task = *tasks_.emplace_back(std::move(filling_[shard]));
    if (shard == mailboxes_.shard()) {
      decide(task);
      on_decided(task);
    } else {
      mailboxes_.post(static_cast<api::ShardId>(shard), &task);
    }
  }
}

void StandIn::add(peer::PeerTarget& target, peer::Outgoing& outgoing, uint32_t place,
                  const api::Entry& entry) noexcept {
  Task& task = filling_[mailboxes_.shard_of(entry.key())];
  if (!task) {
    task = std::make_unique<StandInTask>();
    task->target = &target;
    task->outgoing = &outgoing;
    task->origin = mailboxes_.shard();
  }
  task->places.push_back(place);
  task->entries.push_back(entry);
}

void StandIn::decide(StandInTask& task) noexcept {
  const size_t count = task.entries.size();
  task.verdicts.resize(count);
  task.details.resize(count);
  task.waiters.resize(count, api::no_waiter);
  if (context_.draining) {
    for (api::Entry& entry : task.entries) entry.flags |= api::flag::draining;
  }
  keys_.decide(task.entries,
               {.verdicts = task.verdicts, .details = task.details, .waiters = task.waiters},
               context_.now, task.origin);
}

void StandIn::on_decided(StandInTask& task) noexcept {
  peer::PeerTarget& target = *task.target;
  peer::Outgoing& outgoing = *task.outgoing;
  for (size_t i = 0; i < task.places.size(); ++i) {
    outgoing.keep_stand_in(task.places[i], task.verdicts[i], task.details[i], task.waiters[i]);
  }
  std::erase_if(tasks_, [&](const Task& one) { return one.get() == &task; });
  ASSERT(outgoing.stand_ins_left > 0);
  if (--outgoing.stand_ins_left == 0) target.on_stood_in(outgoing);
}

}  // namespace sluice::server
