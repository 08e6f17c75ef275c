#include "quota/quota_store.hpp"

#include "quota/engine.hpp"

namespace sluice::quota {

QuotaStore::QuotaStore(const Options& options) : engine_(std::make_unique<Engine>(options)) {}
QuotaStore::~QuotaStore() = default;

void QuotaStore::decide(api::QuotaBatch& batch, base::Now now, api::ShardId origin) noexcept {
  engine_->decide(batch, now, origin);
}

bool QuotaStore::withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                          api::ShardId origin) noexcept {
  return engine_->withdraw(waiter, ticket, now, origin);
}

bool QuotaStore::abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                         api::ShardId origin) noexcept {
  return engine_->abandon(waiter, ticket, now, origin);
}

bool QuotaStore::refund(const api::RefundClaim& claim, base::Now now) noexcept {
  return engine_->refund(claim.reservation, now);
}

void QuotaStore::drain(base::Now now) noexcept {
  engine_->drain(now);
}

void QuotaStore::adopt(policy::QuotaBook& book, base::Now now) noexcept {
  engine_->adopt(book, now);
}

void QuotaStore::run_due(base::Now now) noexcept {
  engine_->run_due(now);
}

int64_t QuotaStore::next_due_ns() const noexcept {
  return engine_->next_due_ns();
}

std::span<api::Grant> QuotaStore::grants() noexcept {
  return engine_->grants();
}

void QuotaStore::keep_grants(size_t count) noexcept {
  engine_->keep_grants(count);
}

std::string_view QuotaStore::unknown_subject() const noexcept {
  return engine_->unknown_subject();
}

std::deque<api::QuotaCall>& QuotaStore::outgoing_calls() noexcept {
  return engine_->outgoing_calls();
}

bool QuotaStore::has_tries() const noexcept {
  return engine_->has_tries();
}

void QuotaStore::next_try(api::QuotaBatch& batch) noexcept {
  engine_->next_try(batch);
}

void QuotaStore::end_try(const api::QuotaBatch& batch, base::Now now) noexcept {
  engine_->end_try(batch, now);
}

bool QuotaStore::has_claims() const noexcept {
  return engine_->has_claims();
}

bool QuotaStore::has_changes() const noexcept {
  return engine_->has_changes();
}

void QuotaStore::begin_cut(state::StateSink& sink, const CutStart& start) noexcept {
  engine_->begin_cut(sink, start);
}

bool QuotaStore::hand_over(uint32_t records) noexcept {
  return engine_->hand_over(records);
}

CutFacts QuotaStore::cut_facts() const noexcept {
  return engine_->cut_facts();
}

void QuotaStore::write_all() noexcept {
  engine_->write_all();
}

Restored QuotaStore::restore(const StoredState& stored, base::Now now) {
  return engine_->restore(stored, now);
}

void QuotaStore::drop_moved_quota(std::string_view name, base::Now now) noexcept {
  engine_->drop_moved_quota(name, now);
}

uint32_t QuotaStore::subjects_count() const noexcept {
  return engine_->subjects_count();
}

uint32_t QuotaStore::reservations_count() const noexcept {
  return engine_->reservations_count();
}

uint32_t QuotaStore::waiters_count() const noexcept {
  return engine_->waiters_count();
}

const Statistics& QuotaStore::statistics() const noexcept {
  return engine_->statistics();
}

uint64_t QuotaStore::reserved_bytes() const noexcept {
  return engine_->reserved_bytes();
}

void QuotaStore::check_invariants(base::Now now) const noexcept {
  engine_->check_invariants(now);
}

}  // namespace sluice::quota
