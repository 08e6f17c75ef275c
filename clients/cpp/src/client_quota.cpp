// The calls of a Client about quotas: their lanes and their outcomes.
#include <algorithm>
#include <future>
#include <iterator>
#include <stdexcept>

#include "batch.hpp"
#include "client_impl.hpp"
#include "quota_checks.hpp"
#include "quota_requests.hpp"
#include "quota_slice.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {
namespace {

using Kind = QuotaCall::Kind;

constexpr size_t usage_subjects_max = 256;

ReserveOptions with_entry(ReserveOptions options, const ReserveEntry& entry) {
  options.requests = entry.requests;
  options.input_tokens = entry.input_tokens;
  options.max_output_tokens = entry.max_output_tokens;
  options.cost = entry.cost;
  return options;
}

std::shared_ptr<const ReservedCall> reserved_call(const Subjects& subjects,
                                                  const ReserveOptions& options,
                                                  ReservedCall::Clock::time_point now) {
  return std::make_shared<const ReservedCall>(ReservedCall::of(subjects, options, now));
}

// The options that limit the time of a call.
AcquireOptions patience_of(const QuotaCall& call) {
  return {
      .may_wait = call.may_wait(), .wait_limit_ms = call.wait_limit_ms, .timeout = call.timeout};
}

// The answer to a question that changes a quota or usage has exactly one code.
const QuotaAnswers& single_answer(const Answer& answer) {
  const auto* answers = std::get_if<QuotaAnswers>(&answer);
  if (answers == nullptr || answers->codes.size() != 1) throw_unexpected(answer);
  return *answers;
}

}  // namespace

// ------------------------------------------------------------------------------------ calls

QuotaOutcome ClientImpl::call(const QuotaCall& call, const std::stop_token& stop) {
  require_valid(call);
  const BlockingCall blocking{*this};
  Verdict verdict = Verdict::none;
  QuotaOutcome outcome;
  Waiter waiter{platform_, {&verdict, 1}};
  call_on(lane_of(call), call, patience_of(call),
          {.waiter = &waiter, .index = 0, .callback = {}, .place = &outcome}, stop);
  if (is_mistake(outcome.code)) throw invalid_subject(outcome.code, call.subjects);
  return outcome;
}

Ticket ClientImpl::call_async(const QuotaCall& call, QuotaDone done) {
  require_valid(call);
  QuotaCall timed = call;
  if (const auto limit = patience(patience_of(call), options_.call_timeout)) {
    timed.deadline = platform_.about_now() + *limit;
  }
  const auto place = std::make_shared<QuotaOutcome>();
  const auto deliver = [place, done = std::move(done)](const Outcome&) { done(std::move(*place)); };
  return lane_of(call).add(
      timed, {.waiter = nullptr, .index = 0, .callback = deliver, .place = place.get()});
}

void ClientImpl::send_detached(const QuotaCall& call) {
  QuotaCall timed = call;
  timed.deadline = platform_.about_now() + options_.call_timeout;
  lane_of(call).send_detached(timed);
}

QuotaBatchOutcome ClientImpl::result(QuotaBatchOutcome outcome) const {
  if (outcome.failed == 0) return outcome;
  const bool is_error =
      options_.on_failure == OnFailure::error || outcome.failure == Failure::refused;
  if (is_error) throw QuotaIncomplete(std::move(outcome));
  return outcome;
}

// `make_slice(waiter, cut, places, entries, columns)` makes a frame's job.
template <typename SliceType, typename Entry, typename LaneOf, typename TextBytes, typename Make>
QuotaBatchOutcome ClientImpl::ask_batch(std::span<const Entry> entries,
                                        const AcquireOptions& options, LaneOf lane_of,
                                        TextBytes text_bytes_of, Make make_slice) {
  const BlockingCall blocking{*this};
  const size_t count = entries.size();
  QuotaColumns columns{std::vector<QuotaCode>(count),
                       std::vector<uint64_t>(SliceType::makes_reservations ? count : 0),
                       std::vector<int64_t>(SliceType::makes_reservations ? count : 0)};
  std::vector<Verdict> verdicts(count);
  Waiter waiter{platform_, verdicts};
  const auto shares = share_out(entries, lanes_.count(), lane_of);
  std::vector<Jobs> jobs(shares.size());
  for (size_t lane = 0; lane < shares.size(); ++lane) {
    for (const Cut& cut :
         cut_entries(shares[lane].entries, SliceType::entry_bytes, text_bytes_of)) {
      jobs[lane].push_back(make_slice(waiter, cut, shares[lane].places_of(cut),
                                      shares[lane].entries.subspan(cut.first, cut.count), columns));
    }
  }
  run(waiter, std::move(jobs), deadline_of(options));
  QuotaBatchOutcome batch{.codes = std::move(columns.codes),
                          .reservations = std::move(columns.reservations),
                          .failed = waiter.failed(),
                          .failure = waiter.failure(),
                          .retry_after_ms = std::move(columns.retry_after_ms)};
  if (batch.failed > 0) batch.failures.resize(count);
  for (size_t i = 0; batch.failed > 0 && i < count; ++i) {
    batch.failures[i] = failure_marked(verdicts[i]);
    const bool is_by_policy = batch.failures[i] != Failure::none &&
                              outcome_of(batch.failures[i], options_.on_failure).approved();
    if (is_by_policy) batch.codes[i] = QuotaCode::ok;
  }
  return result(std::move(batch));
}

QuotaBatchOutcome ClientImpl::batch(std::span<const ReserveEntry> entries,
                                    const ReserveOptions& shared) {
  if (entries.empty()) return {};
  if (shared.may_wait) return one_by_one(entries, shared);
  return ask_batch<ReserveSlice>(
      entries, {.timeout = shared.timeout},
      [this](const ReserveEntry& entry) { return quota_lane(entry.subject); },
      [](const ReserveEntry& entry) { return entry.subject.size(); },
      [&](Waiter& waiter, const Cut& cut, std::span<const uint32_t> places,
          std::span<const ReserveEntry> part, QuotaColumns& columns) {
        return std::make_unique<ReserveSlice>(options_.on_failure, waiter, cut.first, places, part,
                                              cut.key_bytes, shared, columns);
      });
}

QuotaBatchOutcome ClientImpl::batch(std::span<const SettleEntry> entries) {
  if (entries.empty()) return {};
  return ask_batch<SettleSlice>(
      entries, {}, [this](const SettleEntry& entry) { return quota_lane(entry.reservation); },
      [](const SettleEntry&) { return size_t{0}; },
      [&](Waiter& waiter, const Cut& cut, std::span<const uint32_t> places,
          std::span<const SettleEntry> part, QuotaColumns& columns) {
        return std::make_unique<SettleSlice>(options_.on_failure, waiter, cut.first, places, part,
                                             columns);
      });
}

// Entries that may wait are single calls, because each gets its outcome at its own time.
QuotaBatchOutcome ClientImpl::one_by_one(std::span<const ReserveEntry> entries,
                                         const ReserveOptions& shared) {
  const BlockingCall blocking{*this};
  std::vector<Verdict> verdicts(entries.size());
  std::vector<QuotaOutcome> outcomes(entries.size());
  Waiter waiter{platform_, verdicts};
  const auto deadline = deadline_of(
      {.may_wait = true, .wait_limit_ms = shared.wait_limit_ms, .timeout = shared.timeout});
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const std::string_view subject = entries[i].subject;
    QuotaCall call = call_of(Kind::reserve, subject, with_entry(shared, entries[i]));
    call.subjects = {&subject, 1};
    if (deadline) call.deadline = *deadline;
    lane_of(call).add(call, {.waiter = &waiter, .index = i, .callback = {}, .place = &outcomes[i]});
  }
  for (uint32_t lane = 0; lane < lanes_.count(); ++lane) lanes_[lane].find_reader();
  wait_for(waiter, deadline);
  QuotaBatchOutcome batch{.failed = waiter.failed(), .failure = waiter.failure()};
  for (const QuotaOutcome& outcome : outcomes) {
    batch.codes.push_back(outcome.code);
    batch.reservations.push_back(outcome.reservation);
    batch.retry_after_ms.push_back(outcome.retry_after_ms);
    if (batch.failed > 0) batch.failures.push_back(outcome.failure);
  }
  return result(std::move(batch));
}

// ------------------------------------------------------------------------------------ client

Reservation Client::reserve(const Subjects& subjects, const ReserveOptions& options,
                            const std::stop_token& stop) {
  QuotaCall call = call_of(Kind::reserve, subjects, options);
  call.has_guard = true;
  auto reserved = reserved_call(subjects, options, impl_->platform().about_now());
  return impl_->guard(impl_->call(call, stop), std::move(reserved));
}

Ticket Client::reserve_async(const Subjects& subjects, ReserveCallback done,
                             const ReserveOptions& options) {
  QuotaCall call = call_of(Kind::reserve, subjects, options);
  call.has_guard = true;
  return impl_->call_async(
      call, [impl = impl_.get(), done = std::move(done),
             reserved = reserved_call(subjects, options, impl_->platform().about_now())](
                QuotaOutcome outcome) { done(impl->guard(std::move(outcome), reserved)); });
}

std::future<Reservation> Client::reserve_future(const Subjects& subjects,
                                                const ReserveOptions& options) {
  const auto promise = std::make_shared<std::promise<Reservation>>();
  auto future = promise->get_future();
  const auto deliver = [promise](Reservation got) {
    const QuotaCode code = got.outcome().code;
    if (is_mistake(code)) {
      promise->set_exception(std::make_exception_ptr(InvalidSubject(code)));
    } else {
      promise->set_value(std::move(got));
    }
  };
  reserve_async(subjects, deliver, options);
  return future;
}

Reservation Client::lease(const Subjects& subjects, ReserveOptions options,
                          const std::stop_token& stop) {
  options.requests = 0;
  return reserve(subjects, options, stop);
}

QuotaOutcome Client::check(const Subjects& subjects, const ReserveOptions& options) {
  QuotaCall call = call_of(Kind::check, subjects, options);
  call.flags &= quota_flag::wants_limits | quota_flag::wants_violated;
  call.wait_limit_ms = 0;
  return impl_->call(call, {});
}

QuotaOutcome Client::record(const Subjects& subjects, const Used& used, std::string_view id) {
  return impl_->call(record_of(subjects, used, id), {});
}

void Client::record_async(const Subjects& subjects, const Used& used, QuotaCallback done,
                          std::string_view id) {
  impl_->call_async(record_of(subjects, used, id), or_nothing(std::move(done)));
}

QuotaOutcome Client::consume(const Subjects& subjects, const Used& used,
                             const ConsumeOptions& options, const std::stop_token& stop) {
  return impl_->call(consume_of(subjects, used, options), stop);
}

Ticket Client::consume_async(const Subjects& subjects, const Used& used, QuotaCallback done,
                             const ConsumeOptions& options) {
  return impl_->call_async(consume_of(subjects, used, options), or_nothing(std::move(done)));
}

QuotaOutcome Client::cancel_reservation(uint64_t reservation, bool keep_requests) {
  return impl_->call(cancel_of(reservation, keep_requests), {});
}

QuotaOutcome Client::extend(uint64_t reservation, uint32_t lifetime_ms) {
  return impl_->call(extend_of(reservation, lifetime_ms), {});
}

QuotaBatchOutcome Client::reserve_batch(std::span<const ReserveEntry> entries,
                                        const ReserveOptions& shared) {
  if (!shared.id.empty()) {
    throw std::invalid_argument("id: names one entry, so reserve_batch() takes none");
  }
  if (shared.renew) {
    throw std::invalid_argument("renew: is a guard's, and reserve_batch() makes none");
  }
  require_valid(shared);
  for (size_t i = 0; i < entries.size(); ++i) {
    check_entry(i, [&] {
      require_subject("subject", entries[i].subject);
      QuotaCall call = call_of(Kind::reserve, entries[i].subject, with_entry(shared, entries[i]));
      call.subjects = {&entries[i].subject, 1};
      require_valid(call);
    });
  }
  return impl_->batch(entries, shared);
}

QuotaBatchOutcome Client::settle_batch(std::span<const SettleEntry> entries) {
  for (size_t i = 0; i < entries.size(); ++i) {
    check_entry(i, [&] { require_valid(settle_of(entries[i].reservation, entries[i].used)); });
  }
  return impl_->batch(entries);
}

SubjectPage ClientImpl::ask_usage(uint32_t lane, const AskUsage& question) {
  SubjectPage page;
  ask(
      lane, [&](uint64_t id, std::vector<uint64_t>& out) { encode(id, question, out); },
      [&](const Answer& answer) {
        const auto* reply = std::get_if<UsageReply>(&answer);
        if (reply == nullptr) throw_unexpected(answer);
        page = reply->page;
      });
  return page;
}

// The server leaves out names that are longer than it allows, and those whose owner does not
// answer.
std::vector<SubjectState> ClientImpl::usage_of(std::span<const std::string_view> subjects) {
  SubjectPage page = ask_usage(quota_lane(subjects.front()), {.subjects = subjects});
  if (page.subjects.size() == subjects.size()) return std::move(page.subjects);
  const auto is_too_long = [most = name_bytes_max()](auto name) { return name.size() > most; };
  if (std::ranges::any_of(subjects, is_too_long)) {
    throw invalid_subject(QuotaCode::invalid_subject, subjects);
  }
  const auto is_left_out = [&](std::string_view name) {
    return std::ranges::find(page.subjects, name, &SubjectState::name) == page.subjects.end();
  };
  throw OwnerUnreachable{*std::ranges::find_if(subjects, is_left_out)};
}

// Of one subject, or of all that the node has which is asked.
template <typename Change>
QuotaCode ClientImpl::ask_change(const Change& change) {
  QuotaCode code = QuotaCode::none;
  std::string detail;
  ask(
      change.subject.empty() ? home_lane() : quota_lane(change.subject),
      [&](uint64_t id, std::vector<uint64_t>& out) { encode(id, change, out); },
      [&](const Answer& answer) {
        code = single_answer(answer).codes[0];
        detail = single_answer(answer).detail;
      });
  if (code == QuotaCode::invalid_quota) throw InvalidQuota(detail);
  if (is_mistake(code)) throw invalid_subject(code, {&change.subject, 1});
  return code;
}

SubjectState Client::usage(std::string_view subject) {
  auto subjects = usage(std::span{&subject, 1});
  return std::move(subjects.front());
}

std::vector<SubjectState> Client::usage(std::span<const std::string_view> subjects) {
  std::vector<SubjectState> states;
  for (size_t first = 0; first < subjects.size(); first += usage_subjects_max) {
    const auto some =
        subjects.subspan(first, std::min(usage_subjects_max, subjects.size() - first));
    for (const std::string_view subject : some) require_subject("subject", subject);
    std::ranges::move(impl_->usage_of(some), std::back_inserter(states));
  }
  return states;
}

SubjectPage Client::usage_page(uint64_t cursor, uint32_t limit) {
  return impl_->ask_usage(impl_->home_lane(), {.subjects = {}, .cursor = cursor, .limit = limit});
}

QuotaCode Client::put_quota(std::string_view subject, const Quota& quota) {
  require_subject("subject", subject);
  require_valid(quota);
  return impl_->ask_change(PutQuota{subject, quota});
}

std::optional<Quota> Client::get_quota(std::string_view subject) {
  SubjectState state = usage(subject);
  if (state.source == QuotaSource::none) return std::nullopt;
  return std::move(state.quota);
}

QuotaCode Client::remove_quota(std::string_view subject) {
  require_subject("subject", subject);
  return impl_->ask_change(RemoveQuota{subject});
}

QuotaCode Client::reset(std::string_view subject) {
  require_subject("subject", subject);
  return impl_->ask_change(Reset{subject});
}

QuotaCode Client::reset_all() {
  return impl_->ask_change(Reset{});
}

}  // namespace sluicegate
