#include "server/undurable_tasks.hpp"

#include "base/limits.hpp"

namespace sluice::server {
namespace {

// Whether an answer says that a quota, or usage, is as the call wants it. A quota that is not there
// may have been removed by the same call before, whose answer was memory_only.
bool is_change(const api::QuotaCall& call, const api::QuotaAnswer& answer) noexcept {
  return (api::is_administrative(call.op) && answer.code == api::QuotaCode::ok) ||
         answer.code == api::QuotaCode::no_such_quota;
}

bool has_changed_quotas(const api::QuotaBatch& batch) noexcept {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    if (is_change(batch.calls[index], batch.answers[index])) return true;
  }
  return false;
}

}  // namespace

UndurableTasks::UndurableTasks(StateKeeper& keeper, SessionTable& sessions,
                               TaskPool<QuotaTask>& pool, uint32_t tasks_max)
    : keeper_(keeper), sessions_(sessions), pool_(pool) {
  tasks_.reserve(tasks_max + keeper.parked_tasks_max());
  due_.reserve(tasks_max + keeper.parked_tasks_max());
}

bool UndurableTasks::add(QuotaTask& task, base::Now now) noexcept {
  if (!task.asker || !has_changed_quotas(task.batch) || keeper_.is_durable(task.epoch)) {
    return false;
  }
  task.batch.own_texts();
  task.waits_until_ns = now.monotonic_ns + limits::durable_wait_ms_max * base::ns_per_ms;
  task.is_parked = !task.is_of_node && pool_.may_park();
  if (task.is_parked) pool_.park(task);
  keeper_.want(task.epoch);
  tasks_.push_back(&task);
  return true;
}

int64_t UndurableTasks::due_ns() const noexcept {
  return tasks_.empty() ? base::never_ns : tasks_.front()->waits_until_ns;
}

// Nobody waits for the disk without a session.
bool UndurableTasks::waits(const QuotaTask& task, base::Now now) const noexcept {
  if (keeper_.is_durable(task.epoch)) return false;
  const session::Session* const session = sessions_.find(task.asker->socket);
  return session != nullptr && !session->ended() && keeper_.may_promise(now) &&
         now.monotonic_ns < task.waits_until_ns;
}

void UndurableTasks::take_due(base::Now now) noexcept {
  due_.clear();
  std::erase_if(tasks_, [&](QuotaTask* task) {
    if (waits(*task, now)) return false;
    due_.push_back(task);
    return true;
  });
}

void UndurableTasks::note_memory_only(api::QuotaBatch& batch) noexcept {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    api::QuotaAnswer& answer = batch.answers[index];
    if (!is_change(batch.calls[index], answer)) continue;
    answer.code = api::QuotaCode::memory_only;
    answer.retry_after_ms = limits::unknown_retry_after_ms;
  }
}

}  // namespace sluice::server
