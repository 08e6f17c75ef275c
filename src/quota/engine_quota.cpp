// Quotas that change: put, removed, reset.
#include "policy/quota_text.hpp"
#include "quota/answer_subjects.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCode;
using api::QuotaSource;

// A call that changes a quota names one subject. If not, sets the answer's code.
bool Engine::names_one(QuotaBatch& batch, size_t index) const noexcept {
  if (batch.calls[index].subjects_count == 1) return resolver_.has_valid_names(batch, index);
  batch.answers[index].code = QuotaCode::invalid_subject;
  return false;
}

void Engine::put(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, index)) return;
  const std::string_view name = batch.subjects[call.first_subject];
  SubjectIndex subject = subjects_.find(hashed);
  const bool is_handed_over = (call.flags & api::quota_flag::handed_over) != 0;
  if (is_handed_over && has_run_time_quota(subject)) {  // it is the later one
    answer.code = QuotaCode::ok;
    return;
  }
  if (!policy::has_time_zones(batch.new_quotas[index])) {  // another node has them, and sent it
    answer.code = QuotaCode::invalid_quota;
    return;
  }
  const CompiledQuota* const quota = book_.classes().hold(batch.new_quotas[index]);
  const CurrentBook::OwnQuota own{.quota = quota, .source = QuotaSource::run_time};
  if (subject == no_subject) {
    subject = subjects_.make(hashed, name, own, no_limited_subjects);
  } else {
    subjects_.current(subject);
    subjects_.change_quota(subject, own);
  }
  book_.classes().drop_reference(quota);  // the subject holds one, if there was room for it
  if (subject == no_subject) {
    answer.code = QuotaCode::subjects_full;
    return set_retry_after(answer);  // another subject may be idle then
  }
  quota_changes_.put(name, batch.new_quotas[index], clock_.moment().wall_ns);
  subjects_[subject].configured = true;
  answer.code = QuotaCode::ok;
  // A node that hands over many shows them to nobody.
  if (!is_handed_over) add_subject_row(batch, index, 0, subject, name, sources());
  server_.serve(subject);
}

bool Engine::has_run_time_quota(SubjectIndex subject) noexcept {
  return subject != no_subject && subjects_.current(subject).source == QuotaSource::run_time;
}

// Another node has it now, in its state. What was put here since the start stays.
void Engine::drop_moved_quota(std::string_view name, base::Now now) noexcept {
  clock_.begin(now);
  if (has_run_time_quota(subjects_.find(subjects_.hash(name)))) return;
  quota_changes_.remove(name, clock_.moment().wall_ns);
}

void Engine::remove(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, index)) return;
  const std::string_view name = batch.subjects[call.first_subject];
  const SubjectIndex found = subjects_.find(hashed);
  if (!has_run_time_quota(found)) {
    answer.code = QuotaCode::no_such_quota;
    return;
  }
  Subject& subject = subjects_[found];
  subjects_.change_quota(found, book_.quota_of(name));
  quota_changes_.remove(name, clock_.moment().wall_ns);
  subject.configured = book_.names(name);
  answer.code = QuotaCode::ok;
  server_.serve(found);
  subjects_.forget_if_idle(found);
}

void Engine::reset(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, index)) return;
  const SubjectIndex found = subjects_.find(hashed);
  answer.code = QuotaCode::ok;  // nothing is used of a subject that is not there
  if (found == no_subject) return;
  subjects_.reset(found);
  server_.serve(found);
}

// Each subject is reset when it is next used; those with a queue in the next steps.
void Engine::reset_all() noexcept {
  subjects_.reset_all();
  server_.begin_marking_all();
}

}  // namespace sluice::quota
