#include "server/moved_quotas.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::server {

using api::QuotaCode;
using quota::MovedQuota;

MovedQuotas::MovedQuotas(const session::Context& context, const route::Mailboxes& mailboxes,
                         quota::QuotaDecider& quotas, const peer::FleetOptions& fleet,
                         MovedQuotaLog& log)
    : context_(context),
      mailboxes_(mailboxes),
      quotas_(quotas),
      log_(log),
      timeout_ms_(fleet.timeout_ms + limits::durable_wait_ms_max),
      has_secret_(!fleet.secret.empty()) {
  for (const peer::Instance& instance : fleet.instances) {
    names_.emplace_back(instance.authority());
  }
}

void MovedQuotas::begin(std::vector<MovedQuota> moved) {
  log_.add(moved.size());
  for (MovedQuota& each : moved) {
    const uint32_t node = mailboxes_.nodes().node_of_subject(each.name);
    owner_of(node).left.push_back({.moved = std::move(each)});
  }
}

MovedQuotas::Owner& MovedQuotas::owner_of(uint32_t node) {
  const auto known =
      std::ranges::find_if(owners_, [&](const auto& owner) { return owner->node == node; });
  if (known != owners_.end()) return **known;
  Owner& owner = *owners_.emplace_back(std::make_unique<Owner>());
  owner.node = node;
  owner.of = peer::QuotaParcel::Of::moved_quotas;
  owner.has_caller = false;
  return owner;
}

int64_t MovedQuotas::due_ms_of(const Owner& owner) noexcept {
  if (owner.is_under_way) return base::never_ms;
  const int64_t left_due_ms = owner.left.empty() ? base::never_ms : owner.due_ms;
  return owner.invalid.empty() ? left_due_ms : std::min(left_due_ms, owner.invalid_due_ms);
}

// A node that drains leaves them to its next start.
int64_t MovedQuotas::due_ms() const noexcept {
  int64_t due_ms = base::never_ms;
  if (sender_ == nullptr || !has_secret_ || context_.draining) return due_ms;
  for (const auto& owner : owners_) due_ms = std::min(due_ms, due_ms_of(*owner));
  return due_ms;
}

void MovedQuotas::send() {
  const int64_t now_ms = context_.now_ms();
  if (due_ms() > now_ms) return;
  for (const auto& owner : owners_) {
    if (due_ms_of(*owner) > now_ms) continue;
    take_back_invalid(*owner, now_ms);
    if (due_ms_of(*owner) > now_ms) continue;
    fill(*owner);
    owner->target =
        mailboxes_.nodes().target_of_subject(owner->node, owner->batch.subjects.front());
    owner->timeout_ms = timeout_ms_;
    owner->is_under_way = true;
    sender_->post(*owner);
  }
}

void MovedQuotas::take_back_invalid(Owner& owner, int64_t now_ms) {
  if (owner.invalid_due_ms > now_ms) return;
  std::ranges::move(owner.invalid, std::back_inserter(owner.left));
  owner.invalid.clear();
}

void MovedQuotas::fill(Owner& owner) {
  api::QuotaBatch& batch = owner.batch;
  batch.clear();
  size_t bytes = wire::forward_quota_head_bytes;
  for (const Left& each : owner.left) {
    const MovedQuota& moved = each.moved;
    batch.calls.push_back({.op = api::QuotaOp::put,
                           .flags = api::quota_flag::handed_over,
                           .subjects_count = 1,
                           .first_subject = static_cast<uint32_t>(batch.subjects.size())});
    batch.subjects.emplace_back(moved.name);
    batch.new_quotas.push_back(moved.quota);
    bytes += wire::forwarded_call_bytes(batch, batch.calls.size() - 1);
    if (bytes > limits::frame_bytes_max) {
      batch.calls.pop_back();
      batch.subjects.pop_back();
      batch.new_quotas.pop_back();
      break;
    }
    if (batch.calls.size() == wire::forwarded_calls_max) break;
  }
  ASSERT(!batch.calls.empty());  // a name and a quota are shorter than a frame
}

void MovedQuotas::on_parcel(peer::QuotaParcel& parcel) noexcept {
  auto& owner = static_cast<Owner&>(parcel);
  ASSERT(owner.is_under_way);
  owner.is_under_way = false;
  if (owner.is_answered) {
    take_answers(owner);
  } else {
    wait(owner, "it does not answer");
  }
}

void MovedQuotas::take_answers(Owner& owner) noexcept {
  ASSERT(owner.batch.answers.size() <= owner.left.size());
  uint64_t taken = 0;
  QuotaCode refusal = QuotaCode::ok;
  std::vector<Left> invalid;
  for (const api::QuotaAnswer& answer : owner.batch.answers) {
    Left first = std::move(owner.left.front());
    owner.left.pop_front();
    if (answer.code == QuotaCode::ok) {
      quotas_.drop_moved_quota(first.moved.name, context_.now);
      ++taken;
    } else if (answer.code == QuotaCode::invalid_quota) {
      invalid.push_back(std::move(first));
    } else {
      refusal = answer.code;
      owner.left.push_back(std::move(first));
    }
  }
  log_.note_taken(taken);
  if (taken > 0 || !invalid.empty()) {
    owner.pause_ms = pause_ms_min;
    owner.refuses_since_ms = base::never_ms;
  }
  if (!invalid.empty()) put_aside(owner, std::move(invalid));
  if (refusal != QuotaCode::ok) wait(owner, api::code_name(refusal));
}

// The log has each of them once, by the first one of its parcel.
void MovedQuotas::put_aside(Owner& owner, std::vector<Left> invalid) noexcept {
  const auto is_new = [](const Left& each) { return !each.is_logged; };
  const auto first = std::ranges::find_if(invalid, is_new);
  if (first != invalid.end()) {
    const auto count = static_cast<uint64_t>(std::ranges::count_if(invalid, is_new));
    log_.note_invalid(names_[owner.node], first->moved, count);
  }
  for (Left& each : invalid) {
    each.is_logged = true;
    owner.invalid.push_back(std::move(each));
  }
  owner.invalid_due_ms = context_.now_ms() + invalid_pause_ms;
}

void MovedQuotas::wait(Owner& owner, std::string_view reason) noexcept {
  const int64_t now_ms = context_.now_ms();
  owner.due_ms = now_ms + owner.pause_ms;
  owner.pause_ms = std::min(owner.pause_ms * 2, pause_ms_max);
  owner.refuses_since_ms = std::min(owner.refuses_since_ms, now_ms);
  if (now_ms - owner.refuses_since_ms < patience_ms) return;
  log_.note_refused(names_[owner.node], reason, context_.now);
}

}  // namespace sluice::server
