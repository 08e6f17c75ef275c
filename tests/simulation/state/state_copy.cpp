#include "state_copy.hpp"

namespace sluice::simulation {

void add_subjects(StateCopy& copy, const api::QuotaBatch& batch) {
  for (const api::SubjectRow& row : batch.rows) {
    SubjectCopy& subject = copy.subjects[std::string(batch.name_of(row))];
    subject.source = row.source;
    subject.open = row.open_reservations;
    for (const api::LimitReport& limit :
         std::span(batch.limits).subspan(row.first_limit, row.limits_count)) {
      subject.limits[std::string(limit.name_text())] = {.kind = limit.kind,
                                                        .amount = limit.amount,
                                                        .used = limit.used,
                                                        .reserved = limit.reserved};
    }
  }
}

uint64_t add_holders(StateCopy& copy, const api::QuotaBatch& batch, base::Now now) {
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  for (const api::HolderRow& row : batch.holders) {
    ReservationCopy& reservation = copy.reservations[row.reservation];
    reservation = {.amounts = row.amounts,
                   .owner = std::string(batch.text_of(row.owner)),
                   .is_bound = row.connection_bound,
                   .since_ms = now_ms - row.held_ms,
                   .due_ms = now_ms + row.lifetime_ms,
                   .subjects = {}};
    for (uint8_t place = 0; place < row.subjects_count; ++place) {
      reservation.subjects.emplace_back(batch.text_of(row.subjects[place]));
    }
  }
  return batch.answers[0].next_cursor;
}

api::QuotaCall holders_call(api::ShardId shard, uint64_t cursor) {
  return {.op = api::QuotaOp::holders, .shard = shard, .limit = 1'000, .cursor = cursor};
}

StateCopy copy_of(quota::QuotaDecider& store, api::ShardId shard,
                  const std::vector<std::string>& subjects, base::Now now) {
  StateCopy copy{.at = now, .has_claims = store.has_claims()};
  api::QuotaBatch batch;
  for (const std::string& subject : subjects) {
    batch.calls.push_back({.op = api::QuotaOp::usage,
                           .subjects_count = 1,
                           .shard = shard,
                           .first_subject = static_cast<uint32_t>(batch.subjects.size())});
    batch.subjects.push_back(subject);
  }
  batch.make_answers();
  store.decide(batch, now, shard);
  add_subjects(copy, batch);
  uint64_t cursor = 0;
  do {
    api::QuotaBatch page;
    page.calls = {holders_call(shard, cursor)};
    page.make_answers();
    store.decide(page, now, shard);
    cursor = add_holders(copy, page, now);
  } while (cursor != 0);
  return copy;
}

}  // namespace sluice::simulation
