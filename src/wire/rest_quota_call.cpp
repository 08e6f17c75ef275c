#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using api::QuotaOp;

// The request's call, with its texts.
api::QuotaCall call_of(const QuotaRequest& request) {
  api::QuotaCall call = request.call;
  call.subjects_count = static_cast<uint8_t>(request.subjects.size());
  call.client_id = request.client_id;
  call.owner = request.owner;
  if (api::concerns_limits(call.op)) {
    call.flags |= api::quota_flag::wants_limits | api::quota_flag::wants_violated;
  }
  return call;
}

void add_subjects(const QuotaRequest& request, api::QuotaBatch& batch) {
  batch.subjects.assign(request.subjects.begin(), request.subjects.end());
}

// A call for each subject: their queues may be in several shards.
void add_positions(api::QuotaBatch& batch) {
  for (uint8_t place = 1; place < batch.calls[0].subjects_count; ++place) {
    batch.calls.push_back(batch.calls[0]);
    batch.calls[place].place = place;
  }
}

}  // namespace

void fill_batch(const QuotaRequest& request, api::QuotaBatch& batch) {
  add_subjects(request, batch);
  batch.calls.push_back(call_of(request));
  if (request.dry_run) batch.calls[0].op = QuotaOp::usage;  // which changes nothing
  if (batch.calls[0].op == QuotaOp::position) return add_positions(batch);
  if (batch.calls[0].op != QuotaOp::put) return;
  // The answer to a PUT is that of a GET after it.
  api::QuotaCall usage;
  usage.op = QuotaOp::usage;
  usage.subjects_count = 1;
  batch.calls.push_back(usage);
  batch.new_quotas.resize(batch.calls.size());
  batch.new_quotas[0] = request.quota;
}

}  // namespace sluice::wire
