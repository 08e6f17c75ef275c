// The calls of a Client that settle a reservation, and what follows when the server does not take
// one: the client keeps it, and records its usage where no server knows the reservation any more.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client_impl.hpp"
#include "quota_checks.hpp"
#include "quota_requests.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {
namespace {

using Stage = KeptSettle::Stage;

// The request of a settle, or of the record that replaces it, with the texts it refers to.
struct Request {
  explicit Request(const KeptSettle& settle) {
    if (settle.stage == Stage::settle) {
      call = settle_of(settle.reservation, settle.used);
      return;
    }
    subjects.assign(settle.reserved->subjects.begin(), settle.reserved->subjects.end());
    id = settle.record_id();
    call = record_of(subjects, settle.recorded(), id);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  std::vector<std::string_view> subjects{};
  std::string id{};
  QuotaCall call{};
};

// Whether the server may still have to take it. The client refuses nothing after close().
bool is_undecided(const KeptSettle& settle, const QuotaOutcome& outcome) {
  if (outcome.failure == Failure::none) return settle.may_be_repeated(outcome.code);
  return outcome.failure != Failure::refused && outcome.failure != Failure::closed;
}

// Whether it may be taken all the same.
bool may_be_taken(const QuotaOutcome& outcome) {
  return outcome.failure == Failure::connection_lost || outcome.failure == Failure::timed_out ||
         outcome.code == QuotaCode::owner_unreachable;
}

KeptSettle settle_by_id(uint64_t reservation, const Used& used, Platform& platform) {
  require_valid(settle_of(reservation, used));
  return {.reservation = reservation,
          .used = used,
          .ends = platform.about_now() + ReservedCall::default_lifetime};
}

}  // namespace

// Blocks. Where a restarted server has forgotten the reservation, the call goes on as a record.
QuotaOutcome ClientImpl::settle(KeptSettle settle) {
  const auto ask = [&] { return call(Request{settle}.call, {}); };
  QuotaOutcome outcome = ask();
  if (!keeps_settles()) return outcome;
  if (settle.is_to_be_recorded(outcome.code, outcome.instance_id)) {
    settle.stage = Stage::record;
    outcome = ask();
  }
  const bool is_taken = outcome.failure == Failure::none && outcome.admitted();
  if (is_taken && settle.stage == Stage::record) settles_.count_recorded();
  if (!is_undecided(settle, outcome)) return outcome;
  Lane& lane = lanes_[lane_index(settle)];
  settle.may_be_taken = may_be_taken(outcome);
  outcome.kept = settles_.keep(std::move(settle));
  if (!outcome.kept && outcome.failure != Failure::none) throw_failure(outcome.failure, lane);
  return outcome;
}

void ClientImpl::settle_async(KeptSettle settle, QuotaDone done) {
  const Request request{settle};
  if (!keeps_settles()) return void(call_async(request.call, std::move(done)));
  call_async(request.call,
             [this, settle = std::move(settle), done = std::move(done)](QuotaOutcome outcome) {
               const bool is_open = is_undecided(settle, outcome);
               outcome.kept = is_open && settles_.keep(settle);
               const bool is_lost = is_open && !outcome.kept && outcome.failure != Failure::none;
               if (is_lost) outcome.code = QuotaCode::none;  // as with the policy `error`
               done(std::move(outcome));
             });
}

void ClientImpl::settle_nowait(KeptSettle settle) {
  if (settles_.send(std::move(settle))) return;
  if (is_closed_) throw Closed("the client was closed");
  throw Overloaded("the client keeps as many settles as kept_settles_max allows (" +
                   std::to_string(options_.kept_settles_max) + ")");
}

// Of a guard that is destroyed: nobody learns of a failure.
void ClientImpl::settle_at_end(KeptSettle settle) {
  if (!keeps_settles()) return send_detached(Request{settle}.call);
  if (!settles_.send(std::move(settle))) settles_.count_lost();
}

QuotaOutcome Client::settle(uint64_t reservation, const Used& used) {
  return impl_->settle(settle_by_id(reservation, used, impl_->platform()));
}

void Client::settle_async(uint64_t reservation, const Used& used, QuotaCallback done) {
  impl_->settle_async(settle_by_id(reservation, used, impl_->platform()),
                      or_nothing(std::move(done)));
}

void Client::settle_nowait(uint64_t reservation, const Used& used) {
  impl_->settle_nowait(settle_by_id(reservation, used, impl_->platform()));
}

SettleCounts Client::settles() const {
  return impl_->settles().counts();
}

}  // namespace sluicegate
