#include "caller.hpp"

#include <algorithm>
#include <memory>

namespace sluicegate::simulation {
namespace {

using namespace std::chrono_literals;

Failure failure_of(const std::exception& thrown) {
  if (dynamic_cast<const TimedOut*>(&thrown) != nullptr) return Failure::timed_out;
  if (dynamic_cast<const Overloaded*>(&thrown) != nullptr) return Failure::overloaded;
  if (dynamic_cast<const Closed*>(&thrown) != nullptr) return Failure::closed;
  if (const auto* refused = dynamic_cast<const Refused*>(&thrown)) {
    return refused->code() == ErrorCode::draining ? Failure::draining : Failure::refused;
  }
  if (std::string_view{thrown.what()}.starts_with("there is no connection")) {
    return Failure::unreachable;
  }
  if (dynamic_cast<const ConnectionLost*>(&thrown) != nullptr) return Failure::connection_lost;
  throw;
}

Result result_of(const Outcome& outcome) {
  const bool has_failed = outcome.failure != Failure::none;
  return {.codes = {static_cast<uint8_t>(outcome.verdict)},
          .failed = has_failed ? size_t{1} : size_t{0},
          .failure = outcome.failure};
}

Result result_of(const QuotaOutcome& outcome) {
  const bool has_failed = outcome.failure != Failure::none;
  return {.codes = {static_cast<uint8_t>(outcome.code)},
          .reservations = {outcome.reservation},
          .failed = has_failed ? size_t{1} : size_t{0},
          .failure = outcome.failure,
          .is_kept = outcome.kept};
}

Result result_of(const BatchOutcome& outcome) {
  Result result{.failed = outcome.failed, .failure = outcome.failure};
  for (const Verdict each : outcome.verdicts) result.codes.push_back(static_cast<uint8_t>(each));
  return result;
}

Result result_of(const QuotaBatchOutcome& outcome) {
  Result result{
      .reservations = outcome.reservations, .failed = outcome.failed, .failure = outcome.failure};
  for (const QuotaCode each : outcome.codes) result.codes.push_back(static_cast<uint8_t>(each));
  return result;
}

}  // namespace

Caller::Caller(uint32_t number, uint64_t seed, Platform& platform, Client& client,
               const ClientOptions& options, CallBook& book, RequestStop request_stop)
    : number_{number},
      dice_{seed},
      platform_{platform},
      client_{client},
      options_{options},
      book_{book},
      request_stop_{std::move(request_stop)} {}

void Caller::run(uint32_t calls_count) {
  for (uint32_t i = 0; i < calls_count; ++i) {
    make_a_call();
    if (dice_.percent(40)) platform_.pause(std::chrono::microseconds{dice_.below(30'000)});
  }
}

void Caller::make_a_call() {
  const uint64_t roll = dice_.below(100);
  if (roll < 14) return acquire();
  if (roll < 34) return acquire_async();
  if (roll < 44) return cancel_one();
  if (roll < 52) return acquire_batch();
  if (roll < 60) return acquire_by_handle();
  if (roll < 64) return release();
  if (roll < 68) return reserve();
  if (roll < 72) return consume();
  if (roll < 78) return reserve_async();
  if (roll < 81) return consume_async();
  if (roll < 84) return reserve_batch();
  if (roll < 88) return check_or_record();
  if (roll < 96) return use_reservation();
  settle_batch();
}

std::string Caller::new_name(const char* what) {
  return what + std::to_string(number_) + "." + std::to_string(++names_count_);
}

// Options of a call that may wait, and may have a time-out of its own.
template <typename Options>
Options Caller::some_waiting() {
  Options options;
  options.may_wait = dice_.percent(50);
  if (options.may_wait) options.wait_limit_ms = static_cast<uint32_t>(1 + dice_.below(300));
  if (dice_.percent(30)) options.timeout = std::chrono::milliseconds{1 + dice_.below(200)};
  return options;
}

Clock::duration Caller::patience(bool may_wait, uint32_t wait_limit_ms,
                                 std::chrono::milliseconds timeout) const {
  const auto own = timeout.count() > 0 ? timeout : options_.call_timeout;
  return own + std::chrono::milliseconds{may_wait ? wait_limit_ms : 0};
}

MadeCall Caller::call_of(const char* kind, std::vector<std::string> entries) const {
  return {.kind = kind, .entries = std::move(entries), .patience = options_.call_timeout};
}

template <typename Make>
void Caller::block(MadeCall& call, Make make) {
  Result result;
  try {
    result = result_of(make());
  } catch (const Incomplete& thrown) {
    result = result_of(thrown.outcome());
  } catch (const QuotaIncomplete& thrown) {
    result = result_of(thrown.outcome());
  } catch (const std::exception& thrown) {
    result = {.codes = std::vector<uint8_t>(call.entries.size(), 0),
              .reservations = std::vector<uint64_t>(call.entries.size(), 0),
              .failed = call.entries.size(),
              .failure = failure_of(thrown)};
  }
  book_.end(call, std::move(result));
}

template <typename Make>
void Caller::block_with_stop(MadeCall& call, Make make) {
  std::stop_source stop;
  std::thread stopper;
  const uint64_t roll = dice_.below(100);
  if (roll < 10) {  // it withdraws as soon as the server queues it
    stop.request_stop();
    book_.cancelled(call);
  } else if (roll < 40) {
    const auto delay = std::chrono::microseconds{dice_.below(60'000)};
    stopper = platform_.start([this, &call, &stop, delay] {
      platform_.pause(delay);
      book_.cancelled(call);
      request_stop_(stop);
    });
  }
  block(call, [&] { return make(stop.get_token()); });
  if (stopper.joinable()) platform_.join(stopper);
}

// ----------------------------------------------------------------------------------------- keys

void Caller::acquire() {
  const std::string key = new_name("k");
  const auto options = some_waiting<AcquireOptions>();
  MadeCall made = call_of("acquire", {key});
  made.may_wait = options.may_wait;
  made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  MadeCall& call = book_.begin(std::move(made));
  block_with_stop(call,
                  [&](const std::stop_token& stop) { return client_.acquire(key, options, stop); });
}

void Caller::acquire_async() {
  const std::string key = new_name("k");
  const auto options = some_waiting<AcquireOptions>();
  MadeCall made = call_of("acquire_async", {key});
  made.is_async = true;
  made.may_wait = options.may_wait;
  made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  MadeCall& call = book_.begin(std::move(made));
  const Ticket ticket = client_.acquire_async(
      key, [this, &call](const Outcome& outcome) { book_.end(call, result_of(outcome)); }, options);
  book_.returned(call);
  tickets_.push_back({ticket, &call});
}

void Caller::cancel_one() {
  if (tickets_.empty()) return;
  const size_t chosen = dice_.below(tickets_.size());
  const OpenTicket open = tickets_[chosen];
  tickets_.erase(tickets_.begin() + static_cast<ptrdiff_t>(chosen));
  book_.cancelled(*open.call);
  client_.cancel(open.ticket);
}

void Caller::acquire_batch() {
  std::vector<std::string> keys(1 + dice_.below(12));
  for (std::string& key : keys) key = new_name("k");
  const std::vector<std::string_view> views{keys.begin(), keys.end()};
  MadeCall made = call_of("acquire_batch", keys);
  made.is_batch = true;
  AcquireOptions options;
  if (dice_.percent(30)) {
    options = some_waiting<AcquireOptions>();
    made.may_wait = options.may_wait;
    made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  }
  MadeCall& call = book_.begin(std::move(made));
  block(call, [&] { return client_.acquire_batch(views, options); });
}

void Caller::acquire_by_handle() {
  try {
    std::vector<std::string> keys(1 + dice_.below(4));
    for (std::string& key : keys) key = "h" + std::to_string(dice_.below(12));
    const std::vector<std::string_view> views{keys.begin(), keys.end()};
    const auto handles = client_.intern(views);
    for (size_t i = 0; i < handles.size(); ++i) {
      if (std::find(handles_.begin(), handles_.end(), handles[i]) != handles_.end()) continue;
      handles_.push_back(handles[i]);
      handle_keys_.push_back(keys[i]);
    }
  } catch (const NotInterned&) {
    // The server had no room.
  } catch (const Error&) {
    // There was no connection.
  }
  if (handles_.empty()) return;
  const uint32_t cost = 2 + number_ * 1'000'000 + ++names_count_;  // of this call only
  MadeCall made = call_of("acquire_batch by handle", {});
  made.is_batch = made.by_handle = true;
  for (const std::string& key : handle_keys_) {
    made.entries.push_back(key + ":" + std::to_string(cost));
  }
  MadeCall& call = book_.begin(std::move(made));
  AcquireOptions options;
  options.cost = cost;
  block(call, [&] { return client_.acquire_batch(std::span<const uint32_t>{handles_}, options); });
}

void Caller::release() {
  const std::string key = new_name("g");
  MadeCall made = call_of("release_async", {"release:" + key});
  made.is_async = made.is_release = true;
  MadeCall& call = book_.begin(std::move(made));
  client_.release_async(
      key, 1, [this, &call](const Outcome& outcome) { book_.end(call, result_of(outcome)); });
  book_.returned(call);
}

// --------------------------------------------------------------------------------------- quotas

void Caller::reserve() {
  const std::string subject = new_name("s");
  auto options = some_waiting<ReserveOptions>();
  const bool is_lease = dice_.percent(50);
  MadeCall made = call_of(is_lease ? "lease" : "reserve", {subject});
  made.is_quota = true;
  made.may_wait = options.may_wait;
  made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  MadeCall& call = book_.begin(std::move(made));
  Reservation got;
  block_with_stop(call, [&](const std::stop_token& stop) {
    got =
        is_lease ? client_.lease(subject, options, stop) : client_.reserve(subject, options, stop);
    return got.outcome();
  });
  if (got.is_open()) reservations_.push_back(std::move(got));
}

void Caller::reserve_async() {
  const std::string subject = new_name("s");
  const auto options = some_waiting<ReserveOptions>();
  MadeCall made = call_of("reserve_async", {subject});
  made.is_quota = made.is_async = true;
  made.may_wait = options.may_wait;
  made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  MadeCall& call = book_.begin(std::move(made));
  const Ticket ticket = client_.reserve_async(
      subject,
      [this, &call](Reservation got) {
        const QuotaOutcome outcome = got.outcome();
        (void)got.detach();
        book_.end(call, result_of(outcome));
      },
      options);
  book_.returned(call);
  tickets_.push_back({ticket, &call});
}

void Caller::consume() {
  const std::string subject = new_name("s");
  const auto options = some_waiting<ConsumeOptions>();
  MadeCall made = call_of("consume", {subject});
  made.is_quota = true;
  made.may_wait = options.may_wait;
  made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  MadeCall& call = book_.begin(std::move(made));
  block_with_stop(call, [&](const std::stop_token& stop) {
    return client_.consume(subject, {}, options, stop);
  });
}

void Caller::consume_async() {
  const std::string subject = new_name("s");
  const auto options = some_waiting<ConsumeOptions>();
  MadeCall made = call_of("consume_async", {subject});
  made.is_quota = made.is_async = true;
  made.may_wait = options.may_wait;
  made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  MadeCall& call = book_.begin(std::move(made));
  const Ticket ticket = client_.consume_async(
      subject, {},
      [this, &call](const QuotaOutcome& outcome) { book_.end(call, result_of(outcome)); }, options);
  book_.returned(call);
  tickets_.push_back({ticket, &call});
}

void Caller::reserve_batch() {
  std::vector<std::string> subjects(1 + dice_.below(8));
  for (std::string& subject : subjects) subject = new_name("s");
  std::vector<ReserveEntry> entries;
  for (const std::string& subject : subjects) entries.push_back({.subject = subject});
  MadeCall made = call_of("reserve_batch", subjects);
  made.is_batch = made.is_quota = true;
  ReserveOptions options;
  if (dice_.percent(30)) {
    options = some_waiting<ReserveOptions>();
    made.may_wait = options.may_wait;
    made.patience = patience(options.may_wait, options.wait_limit_ms, options.timeout);
  }
  MadeCall& call = book_.begin(std::move(made));
  block(call, [&] { return client_.reserve_batch(entries, options); });
  for (const uint64_t each : call.result.reservations) {
    if (each != 0) reservation_ids_.push_back(each);
  }
}

void Caller::check_or_record() {
  const std::string subject = new_name("s");
  const bool is_check = dice_.percent(50);
  MadeCall made = call_of(is_check ? "check" : "record", {subject});
  made.is_quota = true;
  MadeCall& call = book_.begin(std::move(made));
  block(call, [&] { return is_check ? client_.check(subject) : client_.record(subject); });
}

// Renews, settles, cancels or drops one.
void Caller::use_reservation() {
  if (reservations_.empty()) return reserve();
  const size_t chosen = dice_.below(reservations_.size());
  Reservation& reservation = reservations_[chosen];
  const uint64_t roll = dice_.below(100);
  if (roll < 50) {
    const uint32_t lifetime_ms = 3'600'000 + number_ * 1'000'000 + ++names_count_;
    MadeCall made = call_of("extend", {"extend:" + std::to_string(lifetime_ms)});
    made.is_quota = true;
    MadeCall& call = book_.begin(std::move(made));
    block(call, [&] { return reservation.extend(lifetime_ms); });
    return;
  }
  if (roll < 90) {
    const bool is_settle = roll < 70;
    MadeCall made = call_of(is_settle ? "settle" : "cancel", {(is_settle ? "settle:" : "cancel:") +
                                                              std::to_string(reservation.id())});
    made.is_quota = true;
    MadeCall& call = book_.begin(std::move(made));
    const uint64_t id = reservation.id();
    block(call, [&] { return is_settle ? reservation.settle() : reservation.cancel(); });
    if (call.result.is_kept) kept_.insert(id);
  } else if (roll < 95) {
    if (settle_nowait(reservation)) kept_.insert(reservation.id());
  } else if (roll < 98) {
    reservation.report({.output_tokens = 1});  // settled when it is dropped
    if (options_.on_failure != OnFailure::error) kept_.insert(reservation.id());
  }
  reservations_.erase(reservations_.begin() + static_cast<ptrdiff_t>(chosen));
}

// False once the client is closed.
bool Caller::settle_nowait(Reservation& reservation) {
  try {
    reservation.settle_nowait();
    return true;
  } catch (const Closed&) {
    return false;
  }
}

void Caller::settle_batch() {
  if (reservation_ids_.empty()) return;
  std::vector<SettleEntry> entries;
  MadeCall made = call_of("settle_batch", {});
  made.is_batch = made.is_quota = true;
  for (const uint64_t each : reservation_ids_) {
    entries.push_back({.reservation = each});
    made.entries.push_back("settle:" + std::to_string(each));
  }
  reservation_ids_.clear();
  MadeCall& call = book_.begin(std::move(made));
  block(call, [&] { return client_.settle_batch(entries); });
}

}  // namespace sluicegate::simulation
