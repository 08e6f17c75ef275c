// Subjects: found, made, forgotten when idle; and how they come to another quota.
#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCode;
using api::QuotaSource;

Engine::Engine(const Options& options)
    : options_(options),
      budget_(options.step_work),
      subjects_(options, clock_, book_, statistics_),
      adoption_(options_, book_, subjects_),
      owners_(options.reservations_max),
      client_ids_(options.reservations_max, options.waiters_max),
      reservations_(options_, clock_, subjects_, wheel_, owners_, client_ids_),
      waiters_(options.waiters_max, "quota waiters (--max-waiters)") {
  grants_.reserve(options.waiters_max);
}

// Of a call about one subject's quota; if not, that is the answer.
bool Engine::names_one(const QuotaBatch& batch, const api::QuotaCall& call,
                       api::QuotaAnswer& answer) const noexcept {
  if (call.subjects_count == 1 && are_valid(names_of(batch, call))) return true;
  answer.code = QuotaCode::invalid_subject;
  return false;
}

void Engine::put(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, call, answer)) return;
  const std::string_view name = batch.subjects[call.first_subject];
  const QuotaClass* const quota = book_.classes().hold(batch.new_quotas[index]);
  const CurrentBook::OwnQuota own{.quota = quota, .source = QuotaSource::run_time};
  SubjectIndex subject = subjects_.find(hashed);
  if (subject == no_subject) {
    subject = subjects_.make(hashed, name, own, nobody);
  } else {
    subjects_.change_quota(subjects_.current(subject), own);
  }
  book_.classes().let_go(quota);  // the subject holds it, if there is room for one
  if (subject == no_subject) {
    answer.code = QuotaCode::subjects_full;
    return tell_retry(answer);  // somebody may be idle then
  }
  subjects_[subject].configured = true;
  answer.code = QuotaCode::ok;
  tell_subject(batch, index, 0, subject, name);
  serve(subject);
}

void Engine::remove(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, call, answer)) return;
  const std::string_view name = batch.subjects[call.first_subject];
  const SubjectIndex found = subjects_.find(hashed);
  if (found == no_subject || subjects_.current(found).source != QuotaSource::run_time) {
    answer.code = QuotaCode::no_such_quota;
    return;
  }
  Subject& subject = subjects_[found];
  subjects_.change_quota(subject, book_.quota_of(name));
  subject.configured = book_.names(name);
  answer.code = QuotaCode::ok;
  serve(found);
  subjects_.forget_if_idle(found);
}

void Engine::reset(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, call, answer)) return;
  const SubjectIndex found = subjects_.find(hashed);
  answer.code = QuotaCode::ok;  // nothing is used of a subject that is not there
  if (found == no_subject) return;
  subjects_.reset(found);
  serve(found);
}

void Engine::adopt(policy::QuotaBook& book, base::Now now) noexcept {
  clock_.begin(now);
  book_.adopt(book);
  refresh_waiters_at_ = 0;
  adoption_.begin();
  adoption_.go_on();
}

// Each subject takes part when it is next looked at; those with a queue are looked at now.
void Engine::reset_all() noexcept {
  subjects_.reset_all();
  refresh_waiters_at_ = 0;
}

uint64_t Engine::reserved_bytes() const noexcept {
  return subjects_.reserved_bytes() + owners_.reserved_bytes() + client_ids_.reserved_bytes() +
         reservations_.reserved_bytes() + waiters_.reserved_bytes();
}

void Engine::check_invariants(base::Now) const noexcept {
  subjects_.check_invariants();
  reservations_.check_invariants();
  for (SubjectIndex index = 0; index < subjects_.pool().index_end(); ++index) {
    if (!subjects_.pool().holds(index)) continue;
    const Subject& subject = subjects_[index];
    uint32_t waiting = 0;
    Link before = no_link;
    for (Link at = subject.first_waiter; at != no_link; ++waiting) {
      const Waiter& waiter = waiters_[waiter_of(at)];
      ASSERT(waiter.request.subjects[place_of(at)] == index);
      ASSERT(waiter.before[place_of(at)] == before);
      before = at;
      at = waiter.behind[place_of(at)];
    }
    ASSERT(before == subject.last_waiter && waiting == subject.waiting);
  }
}

}  // namespace sluice::quota
