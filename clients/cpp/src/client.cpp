#include "sluicegate/client.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <utility>

#include "connector.hpp"
#include "handle_table.hpp"
#include "io_thread.hpp"
#include "lane_set.hpp"
#include "patience.hpp"
#include "routing.hpp"
#include "sluicegate/address.hpp"

namespace sluicegate {
namespace {

using Clock = Waiter::Clock;

constexpr uint32_t amount_max = 1'000'000'000;
constexpr uint32_t wait_limit_ms_max = 3'600'000;
constexpr size_t slice_keys_max = 1'024;
constexpr size_t slice_handles_max = 4'096;
constexpr size_t slice_bytes_max = 64 * 1024;

// What the server would refuse a whole frame for: other callers' entries may be in it.
void check(const AcquireOptions& options) {
  const auto is_override = [](uint32_t value, uint32_t least) {
    return value == keep || (value >= least && value <= amount_max);
  };
  if (options.cost < 1 || options.cost > amount_max) {
    throw std::invalid_argument("a cost is 1 to 1000000000, not " + std::to_string(options.cost));
  }
  if (!is_override(options.max_requests, 1) || !is_override(options.max_requests_in_queue, 0)) {
    throw std::invalid_argument(
        "max_requests is 1 to 1000000000, and max_requests_in_queue 0 to 1000000000");
  }
  if (options.wait_limit_ms > wait_limit_ms_max) {
    throw std::invalid_argument("wait_limit_ms is 3600000 at most, not " +
                                std::to_string(options.wait_limit_ms));
  }
}

void check(std::string_view key) {
  if (key.size() > UINT16_MAX) {
    throw std::invalid_argument("a key has 65535 bytes at most, not " + std::to_string(key.size()));
  }
}

void check(const ClientOptions& options) {
  if (options.pending_max == 0 || options.frame_entries_max == 0 || options.frames_in_flight == 0) {
    throw std::invalid_argument(
        "pending_max, frame_entries_max and frames_in_flight are at least 1");
  }
  if (options.frame_entries_max > 8'192) {
    throw std::invalid_argument("frame_entries_max is 8192 at most");
  }
  if (options.connect_timeout.count() < 1 || options.call_timeout.count() < 1) {
    throw std::invalid_argument("connect_timeout and call_timeout are at least 1 ms");
  }
  if (options.backoff_first.count() < 1 || options.backoff_longest < options.backoff_first) {
    throw std::invalid_argument("backoff_first is at least 1 ms, and backoff_longest not below it");
  }
}

// The kernel's clock as of its last tick, and a tick more: it costs a fraction of an exact one, and
// time-outs of callbacks are not worth that.
Clock::time_point about_now() noexcept {
  constexpr auto tick = std::chrono::milliseconds{10};  // the longest that kernels are built with
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return Clock::time_point{std::chrono::seconds{now.tv_sec} +
                           std::chrono::nanoseconds{now.tv_nsec} + tick};
}

// A span of a batch that one frame takes.
struct Cut {
  uint32_t first;
  uint32_t count;
  size_t key_bytes;
};

// Cuts keys into frames, none of them above the bounds.
std::vector<Cut> cut_keys(std::span<const std::string_view> keys, size_t entry_bytes) {
  std::vector<Cut> cuts;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const bool is_full =
        cuts.empty() || cuts.back().count == slice_keys_max ||
        cuts.back().key_bytes + keys[i].size() + cuts.back().count * entry_bytes > slice_bytes_max;
    if (is_full) cuts.push_back({i, 0, 0});
    ++cuts.back().count;
    cuts.back().key_bytes += keys[i].size();
  }
  return cuts;
}

std::vector<Cut> cut_handles(size_t count) {
  std::vector<Cut> cuts;
  for (size_t first = 0; first < count; first += slice_handles_max) {
    const auto size = std::min(slice_handles_max, count - first);
    cuts.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(size), 0});
  }
  return cuts;
}

// A lane's part of a batch, and the places of its entries there; no places: the whole batch.
template <typename Entry>
struct Share {
  std::span<const Entry> entries;
  std::span<const uint32_t> places;
  std::vector<Entry> own_entries;
  std::vector<uint32_t> own_places;

  std::span<const uint32_t> places_of(const Cut& cut) const {
    return places.empty() ? places : places.subspan(cut.first, cut.count);
  }
};

// A batch's entries by the lane of each, in their order.
template <typename Entry, typename LaneOf>
std::vector<Share<Entry>> share_out(std::span<const Entry> entries, uint32_t lanes_count,
                                    LaneOf lane_of) {
  std::vector<Share<Entry>> shares(lanes_count);
  if (lanes_count == 1) {
    shares[0].entries = entries;
    return shares;
  }
  for (uint32_t i = 0; i < entries.size(); ++i) {
    // A lane may have been added since they were counted.
    Share<Entry>& share = shares[std::min(lane_of(entries[i]), lanes_count - 1)];
    share.own_entries.push_back(entries[i]);
    share.own_places.push_back(i);
  }
  for (Share<Entry>& share : shares) {
    share.entries = share.own_entries;
    share.places = share.own_places;
  }
  return shares;
}

// Throws where a key got no handle; `outcomes` are those of the keys that were asked for.
std::vector<uint32_t> require_interned(std::vector<uint32_t> handles,
                                       const std::unordered_map<uint32_t, Verdict>& outcomes) {
  std::vector<Verdict> verdicts(handles.size(), Verdict::approved);
  size_t failed = 0;
  std::string first;
  for (size_t i = 0; i < handles.size(); ++i) {
    const auto outcome = outcomes.find(handles[i]);
    if (outcome == outcomes.end() || outcome->second == Verdict::approved) continue;
    verdicts[i] = outcome->second;
    handles[i] = no_handle;
    if (++failed == 1) first = name(outcome->second);
  }
  if (failed == 0) return handles;
  const std::string text = std::to_string(failed) + " of " + std::to_string(handles.size()) +
                           " keys got no handle, the first of them: " + first;
  throw NotInterned(text, std::move(handles), std::move(verdicts));
}

}  // namespace

Incomplete::Incomplete(BatchOutcome outcome)
    : Error{std::to_string(outcome.failed) + " of " + std::to_string(outcome.verdicts.size()) +
            " entries have no verdict: " + std::string{name(outcome.failure)}},
      outcome_{std::move(outcome)} {}

bool BatchOutcome::all_approved() const noexcept {
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](Verdict verdict) { return verdict == Verdict::approved; });
}

// ------------------------------------------------------------------------------------- core

class ClientCore {
 public:
  ClientCore(Address address, ClientOptions given)
      : options_{std::move(given)}, connector_{address.host, address.port, options_} {
    lanes_.add(std::make_unique<Lane>(0, options_, io_, connector_));
    io_.start(lanes_);
    connector_.start(lanes_, io_, routing_, handles_);
  }
  ~ClientCore() {
    close();
    // Whose calls were just completed may not have left them.
    while (callers_.load() > 0) std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  void close() {
    if (io_.is_current()) throw std::logic_error("a callback must not close its client");
    if (is_closed_.exchange(true)) return;
    connector_.stop();
    for (uint32_t i = 0; i < lanes_.count(); ++i) lanes_[i].close();
    io_.stop();
  }

  Outcome call(const Call& call, const std::stop_token& stop);
  Ticket call_async(const Call& call, Client::Callback done);
  BatchOutcome batch(std::span<const std::string_view> keys, const AcquireOptions& options);
  BatchOutcome batch(std::span<const uint32_t> handles, const AcquireOptions& options);
  std::vector<uint32_t> intern(std::span<const std::string_view> keys);
  void ask(uint32_t lane, Question::Encode encode, Question::Take take);
  void cancel(const Ticket& ticket) { lanes_[ticket.lane].cancel(ticket); }

  size_t pending() {
    size_t sum = 0;
    for (uint32_t i = 0; i < lanes_.count(); ++i) sum += lanes_[i].pending();
    return sum;
  }

  size_t connections() {
    size_t sum = 0;
    for (uint32_t i = 0; i < lanes_.count(); ++i) sum += lanes_[i].is_up() ? 1 : 0;
    return sum;
  }

  Lane& lane_of(std::string_view key) { return lanes_[lane_index(key)]; }
  uint32_t lane_index(std::string_view key) noexcept { return usable_lane(routing_.lane_of(key)); }
  // The lane itself, or while it has no connection one that has: a shard that does not own a key
  // has it decided all the same.
  uint32_t usable_lane(uint32_t lane) noexcept {
    const bool is_there = lane < lanes_.count();
    if (is_there && lanes_[lane].is_up()) return lane;
    return is_there && !lanes_[0].is_up() ? lane : 0;
  }
  Lane::Deadline deadline_of(const AcquireOptions& options) const {
    const auto limit = patience(options, options_.call_timeout);
    return limit ? Lane::Deadline{Clock::now() + *limit} : std::nullopt;
  }

 private:
  // Counts a blocking call, and refuses it to callbacks: they would wait for themselves.
  class Inside {
   public:
    explicit Inside(ClientCore& core) : core_{core} {
      if (core.io_.is_current()) {
        throw std::logic_error("a callback must not call what blocks: it is what others wait for");
      }
      ++core_.callers_;
    }
    ~Inside() { --core_.callers_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    ClientCore& core_;
  };

  using Jobs = std::vector<std::unique_ptr<Job>>;

  [[noreturn]] void throw_failure(Failure failure, const Lane& lane) const;
  void run(Waiter& waiter, std::vector<Jobs> jobs_by_lane, Lane::Deadline deadline);
  void wait_for(Waiter& waiter, Lane::Deadline deadline);
  void intern_on(uint32_t lane, std::span<const uint32_t> handles, std::vector<Verdict>& verdicts);
  BatchOutcome result(Waiter& waiter, std::vector<Verdict> verdicts) const;
  BatchOutcome result(BatchOutcome outcome) const;
  BatchOutcome ask(std::span<const std::string_view> keys, const AcquireOptions& options);
  BatchOutcome ask_rest_by_key(std::span<const uint32_t> handles, BatchOutcome outcome,
                               const AcquireOptions& options);
  BatchOutcome one_by_one(std::span<const std::string_view> keys, const AcquireOptions& options);

  const ClientOptions options_;
  Routing routing_;
  HandleTable handles_;
  IoThread io_;
  Connector connector_;
  LaneSet lanes_;
  std::atomic<uint32_t> callers_{0};
  std::atomic<bool> is_closed_{false};
};

void ClientCore::throw_failure(Failure failure, const Lane& lane) const {
  const std::string why = lane.last_error();
  const std::string cause = why.empty() ? "" : ": " + why;
  switch (failure) {
    case Failure::connection_lost:
      throw ConnectionLost(
          "the connection was lost before the answer came, so a permit may be "
          "taken" +
          cause);
    case Failure::timed_out:
      throw TimedOut("no answer in time" + cause);
    case Failure::overloaded:
      throw Overloaded("as many calls are open as pending_max allows (" +
                       std::to_string(options_.pending_max) + ")");
    case Failure::draining:
      throw Refused(ErrorCode::draining, "it shuts down");
    case Failure::closed:
      throw Closed("the client was closed");
    case Failure::unreachable:
    case Failure::refused:  // has an exception of its own
    case Failure::none:
      break;
  }
  throw ConnectionLost("there is no connection" + cause);
}

Outcome ClientCore::call(const Call& call, const std::stop_token& stop) {
  const Inside inside{*this};
  Verdict verdict = Verdict::none;
  Waiter waiter{{&verdict, 1}};
  Lane& lane = lane_of(call.key);
  const auto deadline = deadline_of(call.options);
  Call timed = call;
  if (deadline) timed.deadline = *deadline;
  const Ticket ticket = lane.add(timed, {.waiter = &waiter, .index = 0, .callback = {}});
  {
    std::optional<std::stop_callback<std::function<void()>>> canceller;
    if (stop.stop_possible()) canceller.emplace(stop, [&] { lane.cancel(ticket); });
    lane.await(waiter, deadline);
  }
  const Failure failure = waiter.failure();
  if (failure == Failure::refused) throw waiter.refusal();
  if (failure != Failure::none && options_.on_failure == OnFailure::error) {
    throw_failure(failure, lane);
  }
  return {verdict, failure};
}

Ticket ClientCore::call_async(const Call& call, Client::Callback done) {
  Call timed = call;
  if (const auto limit = patience(call.options, options_.call_timeout)) {
    timed.deadline = about_now() + *limit;
  }
  return lane_of(call.key).add(timed, {.waiter = nullptr, .index = 0, .callback = std::move(done)});
}

// Over one lane the caller reads by itself; over several the I/O thread does.
void ClientCore::run(Waiter& waiter, std::vector<Jobs> jobs_by_lane, Lane::Deadline deadline) {
  std::vector<uint32_t> used;
  for (uint32_t lane = 0; lane < jobs_by_lane.size(); ++lane) {
    if (!jobs_by_lane[lane].empty()) used.push_back(lane);
  }
  const auto reader = used.size() == 1 ? Lane::Reader::caller : Lane::Reader::io;
  for (const uint32_t lane : used) lanes_[lane].add(std::move(jobs_by_lane[lane]), reader);
  if (used.size() == 1) return lanes_[used.front()].await(waiter, deadline);
  wait_for(waiter, deadline);
}

// While the I/O thread reads.
void ClientCore::wait_for(Waiter& waiter, Lane::Deadline deadline) {
  while (!waiter.is_done()) {
    waiter.wait_until(deadline);
    if (waiter.is_done() || !deadline || Clock::now() < *deadline) continue;
    for (uint32_t lane = 0; lane < lanes_.count(); ++lane) lanes_[lane].leave(waiter);
    deadline.reset();
  }
}

BatchOutcome ClientCore::result(Waiter& waiter, std::vector<Verdict> verdicts) const {
  return result({std::move(verdicts), waiter.failed(), waiter.failure()});
}

BatchOutcome ClientCore::result(BatchOutcome outcome) const {
  const bool is_error =
      options_.on_failure == OnFailure::error || outcome.failure == Failure::refused;
  if (outcome.failed > 0 && is_error) {
    throw Incomplete(std::move(outcome));
  }
  return outcome;
}

// Entries that may wait are single calls: each has an outcome and a time of its own.
BatchOutcome ClientCore::one_by_one(std::span<const std::string_view> keys,
                                    const AcquireOptions& options) {
  std::vector<Verdict> verdicts(keys.size());
  Waiter waiter{verdicts};
  const auto deadline = deadline_of(options);
  Call call{.key = {}, .options = options};
  if (deadline) call.deadline = *deadline;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    call.key = keys[i];
    lane_of(keys[i]).add(call, {.waiter = &waiter, .index = i, .callback = {}});
  }
  for (uint32_t lane = 0; lane < lanes_.count(); ++lane) lanes_[lane].find_reader();
  wait_for(waiter, deadline);
  return result(waiter, std::move(verdicts));
}

BatchOutcome ClientCore::batch(std::span<const std::string_view> keys,
                               const AcquireOptions& options) {
  const Inside inside{*this};
  if (keys.empty()) return {};
  if (options.may_wait) return one_by_one(keys, options);
  return result(ask(keys, options));
}

// Without waiting, and without a word on failures.
BatchOutcome ClientCore::ask(std::span<const std::string_view> keys,
                             const AcquireOptions& options) {
  std::vector<Verdict> verdicts(keys.size());
  Waiter waiter{verdicts};
  const BatchColumns columns{options, std::min(keys.size(), slice_keys_max)};
  const auto shares =
      share_out(keys, lanes_.count(), [this](std::string_view key) { return lane_index(key); });
  std::vector<Jobs> jobs(shares.size());
  for (size_t lane = 0; lane < shares.size(); ++lane) {
    for (const Cut& cut : cut_keys(shares[lane].entries, 2 + columns.bytes(2) / 2)) {
      jobs[lane].push_back(std::make_unique<KeySlice>(
          options_.on_failure, waiter, cut.first, shares[lane].places_of(cut),
          shares[lane].entries.subspan(cut.first, cut.count), cut.key_bytes, columns));
    }
  }
  run(waiter, std::move(jobs), deadline_of(options));
  return {std::move(verdicts), waiter.failed(), waiter.failure()};
}

BatchOutcome ClientCore::batch(std::span<const uint32_t> handles, const AcquireOptions& options) {
  const Inside inside{*this};
  if (handles.empty()) return {};
  const uint32_t largest = *std::max_element(handles.begin(), handles.end());
  if (largest >= handles_.count()) {
    throw std::invalid_argument("this client gave no handle " + std::to_string(largest));
  }
  if (options.may_wait) {
    std::vector<std::string_view> keys;
    for (const uint32_t handle : handles) keys.push_back(handles_.key(handle));
    return one_by_one(keys, options);
  }
  std::vector<Verdict> verdicts(handles.size());
  Waiter waiter{verdicts};
  const BatchColumns columns{options, std::min(handles.size(), slice_handles_max)};
  const auto shares = share_out(handles, lanes_.count(), [this](uint32_t handle) {
    return usable_lane(lane_of_tag(HandleTable::link_tag_of(handles_.seat(handle))));
  });
  std::vector<Jobs> jobs(shares.size());
  for (uint32_t lane = 0; lane < shares.size(); ++lane) {
    for (const Cut& cut : cut_handles(shares[lane].entries.size())) {
      jobs[lane].push_back(std::make_unique<HandleSlice>(
          options_.on_failure, waiter, cut.first, shares[lane].places_of(cut),
          shares[lane].entries.subspan(cut.first, cut.count), columns, handles_,
          lanes_[lane].link_tag()));
    }
  }
  const auto deadline = deadline_of(options);
  run(waiter, std::move(jobs), deadline);
  const auto not_held = std::find(verdicts.begin(), verdicts.end(), HandleSlice::not_held);
  if (not_held == verdicts.end()) return result(waiter, std::move(verdicts));
  return ask_rest_by_key(handles, {std::move(verdicts), waiter.failed(), waiter.failure()},
                         options);
}

// What no connection held a number for: the keys that a server had no room to intern again.
BatchOutcome ClientCore::ask_rest_by_key(std::span<const uint32_t> handles, BatchOutcome outcome,
                                         const AcquireOptions& options) {
  std::vector<uint32_t> places;
  std::vector<std::string_view> keys;
  for (uint32_t i = 0; i < handles.size(); ++i) {
    if (outcome.verdicts[i] != HandleSlice::not_held) continue;
    places.push_back(i);
    keys.push_back(handles_.key(handles[i]));
  }
  BatchOutcome rest = ask(keys, options);
  for (size_t i = 0; i < places.size(); ++i) outcome.verdicts[places[i]] = rest.verdicts[i];
  outcome.failed += rest.failed;
  if (outcome.failure == Failure::none) outcome.failure = rest.failure;
  return result(std::move(outcome));
}

// Asks one question and has its answer taken; throws where there is none, whatever the policy.
void ClientCore::ask(uint32_t lane, Question::Encode encode, Question::Take take) {
  const Inside inside{*this};
  Verdict unused = Verdict::none;
  Waiter waiter{{&unused, 1}};
  Jobs jobs;
  jobs.push_back(
      std::make_unique<Question>(OnFailure::error, waiter, std::move(encode), std::move(take)));
  lanes_[lane].add(std::move(jobs), Lane::Reader::caller);
  lanes_[lane].await(waiter, Clock::now() + options_.call_timeout);
  if (waiter.failure() == Failure::refused) throw waiter.refusal();
  if (waiter.failure() != Failure::none) throw_failure(waiter.failure(), lanes_[lane]);
}

// Keys whose seats are not of the connection that their lane has now.
void ClientCore::intern_on(uint32_t lane, std::span<const uint32_t> handles,
                           std::vector<Verdict>& verdicts) {
  std::vector<std::string_view> keys;
  for (const uint32_t handle : handles) keys.push_back(handles_.key(handle));
  for (const Cut& cut : cut_keys(keys, 2)) {
    const auto asked = std::span{keys}.subspan(cut.first, cut.count);
    ask(
        lane,
        [&](uint64_t id, std::vector<uint64_t>& out) { encode(id, Intern{.keys = asked}, out); },
        [&](const Answer& answer) {
          const auto* interned = std::get_if<Interned>(&answer);
          if (interned == nullptr || interned->handles.size() != cut.count) {
            throw_unexpected(answer);
          }
          for (uint32_t i = 0; i < cut.count; ++i) {
            verdicts.push_back(interned->verdicts[i]);
            if (verdicts.back() != Verdict::approved) continue;
            handles_.set_seat(handles[cut.first + i], lanes_[lane].link_tag(),
                              interned->handles[i]);
          }
        });
  }
}

std::vector<uint32_t> ClientCore::intern(std::span<const std::string_view> keys) {
  std::vector<uint32_t> handles(keys.size());
  std::vector<std::vector<uint32_t>> missing_by_lane(LaneSet::lanes_max);
  std::unordered_map<uint32_t, Verdict> outcomes;  // of those that have no seat yet
  for (size_t i = 0; i < keys.size(); ++i) {
    handles[i] = handles_.add(keys[i]);
    const uint32_t lane = lane_index(keys[i]);
    const bool is_held = lanes_[lane].holds(HandleTable::link_tag_of(handles_.seat(handles[i])));
    if (is_held || !outcomes.emplace(handles[i], Verdict::none).second) continue;
    missing_by_lane[lane].push_back(handles[i]);
  }
  for (uint32_t lane = 0; lane < missing_by_lane.size(); ++lane) {
    const auto& missing = missing_by_lane[lane];
    if (missing.empty()) continue;
    std::vector<Verdict> verdicts;
    intern_on(lane, missing, verdicts);
    for (size_t i = 0; i < missing.size(); ++i) outcomes[missing[i]] = verdicts[i];
  }
  return require_interned(std::move(handles), outcomes);
}

// ----------------------------------------------------------------------------------- client

Client::Client(const std::string& address, ClientOptions options) {
  check(options);
  core_ = std::make_unique<ClientCore>(parse_address(address), std::move(options));
}

Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

size_t Client::pending() const {
  return core_->pending();
}

size_t Client::connections() const {
  return core_->connections();
}

void Client::close() {
  core_->close();
}

Outcome Client::acquire(std::string_view key, const AcquireOptions& options,
                        const std::stop_token& stop) {
  check(key);
  check(options);
  return core_->call({.key = key, .options = options}, stop);
}

Ticket Client::acquire_async(std::string_view key, Callback done, const AcquireOptions& options) {
  check(key);
  check(options);
  return core_->call_async({.key = key, .options = options}, std::move(done));
}

std::future<Outcome> Client::acquire_future(std::string_view key, const AcquireOptions& options) {
  const auto promise = std::make_shared<std::promise<Outcome>>();
  auto future = promise->get_future();
  acquire_async(
      key, [promise](const Outcome& outcome) { promise->set_value(outcome); }, options);
  return future;
}

void Client::cancel(const Ticket& ticket) {
  core_->cancel(ticket);
}

void Client::release(std::string_view key, uint32_t cost) {
  const AcquireOptions options{.cost = cost};
  check(key);
  check(options);
  core_->call({.key = key, .options = options, .is_release = true}, {});
}

void Client::release_async(std::string_view key, uint32_t cost, Callback done) {
  const AcquireOptions options{.cost = cost};
  check(key);
  check(options);
  core_->call_async({.key = key, .options = options, .is_release = true}, std::move(done));
}

std::optional<KeyState> Client::inspect(std::string_view key) {
  check(key);
  std::optional<KeyState> state;
  core_->ask(
      core_->lane_index(key),
      [&](uint64_t id, std::vector<uint64_t>& out) { encode(id, Inspect{.key = key}, out); },
      [&](const Answer& answer) {
        const auto* inspected = std::get_if<Inspected>(&answer);
        if (inspected == nullptr) throw_unexpected(answer);
        if (inspected->keys.empty()) return;
        const InspectedKey& found = inspected->keys.front();
        state = KeyState{.key = std::string{key},
                         .window_ms = found.window_ms,
                         .reset_ms = found.reset_ms,
                         .max_requests = found.max_requests,
                         .max_requests_in_queue = found.max_requests_in_queue,
                         .approved = found.approved,
                         .denied = found.denied,
                         .waiting = found.waiting};
      });
  return state;
}

void Client::ping() {
  core_->ask(
      0, [](uint64_t id, std::vector<uint64_t>& out) { encode(id, Ping{}, out); },
      [](const Answer& answer) {
        if (!std::holds_alternative<Pong>(answer)) throw_unexpected(answer);
      });
}

BatchOutcome Client::acquire_batch(std::span<const std::string_view> keys,
                                   const AcquireOptions& options) {
  for (const std::string_view key : keys) check(key);
  check(options);
  return core_->batch(keys, options);
}

BatchOutcome Client::acquire_batch(std::span<const uint32_t> handles,
                                   const AcquireOptions& options) {
  check(options);
  return core_->batch(handles, options);
}

std::vector<uint32_t> Client::intern(std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) check(key);
  return core_->intern(keys);
}

}  // namespace sluicegate
