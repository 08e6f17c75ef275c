#include "client_impl.hpp"

#include <algorithm>
#include <unordered_map>

#include "batch.hpp"

namespace sluicegate {
namespace {

using Clock = Waiter::Clock;

// Throws if a key got no handle; `outcomes` are those of the keys that this call interned.
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

BatchOutcome take_failures(const Waiter& waiter, BatchOutcome batch) {
  batch.failed = waiter.failed();
  batch.failure = waiter.failure();
  return batch;
}

}  // namespace

// -------------------------------------------------------------------------------------- lanes

// Waits while the owner may be reached at the next attempt. Before its first connection a client
// does not know the nodes, and a ping waits for that.
uint32_t ClientImpl::connected_owner_lane(std::string_view key) {
  constexpr std::chrono::milliseconds pause{1};
  if (!connector_.has_fleet()) return lane_index(key);
  const auto deadline = platform_.now() + options_.call_timeout;
  if (nodes_.count() == 0) ping();
  for (; !is_closed_; platform_.pause(pause)) {
    const Node& owner = nodes_[sluice::proto::key_node(key, nodes_.count())];
    for (const uint32_t lane : {owner.lane_of(key), owner.lane(0)}) {
      if (lanes_.is_connected(lane)) return lane;
    }
    if (owner.is_out_of_reach || is_draining(owner.lane(0)) || platform_.now() >= deadline) {
      throw ConnectionLost(
          "the key's owner is not connected, and other nodes do not know the key's state");
    }
  }
  return 0;  // refuses the call
}

// Of the same node if possible, else of the next ones in the list; the lane itself if no node is
// connected.
uint32_t ClientImpl::stand_in(uint32_t lane, uint32_t place) noexcept {
  const uint32_t count = nodes_.count();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t first = nodes_[(place + i) % count].lane(0);
    if (lanes_.is_connected(first)) return first;
  }
  return lane < lanes_.count() ? lane : 0;
}

// By lanes, each looked up once: whether there are several nodes is the same for all keys.
std::vector<Share<std::string_view>> ClientImpl::share_out_keys(
    std::span<const std::string_view> keys) {
  if (nodes_.count() > 0) {
    return share_out(keys, lanes_.count(),
                     [this](std::string_view key) { return owner_lane(key); });
  }
  return share_out(keys, lanes_.count(),
                   [this](std::string_view key) { return usable_lane(routing_.shard_of(key)); });
}

// ----------------------------------------------------------------------------------- failures

void ClientImpl::throw_failure(Failure failure, const Lane& lane) const {
  const std::string why = lane.last_error();
  const std::string cause = why.empty() ? "" : ": " + why;
  switch (failure) {
    case Failure::connection_lost:
      throw ConnectionLost(
          "the connection was lost before the answer arrived, so a permit may "
          "be taken" +
          cause);
    case Failure::timed_out:
      throw TimedOut("no answer in time" + cause);
    case Failure::overloaded:
      throw Overloaded("the client has as many open calls as pending_max allows (" +
                       std::to_string(options_.pending_max) + ")");
    case Failure::draining:
      throw Refused(ErrorCode::draining, "it is shutting down");
    case Failure::closed:
      throw Closed("the client was closed");
    case Failure::unreachable:
    case Failure::refused:  // throw_if_failed() has thrown Refused
    case Failure::none:
      break;
  }
  throw ConnectionLost("there is no connection" + cause);
}

void ClientImpl::throw_if_failed(const Waiter& waiter, const Lane& lane) const {
  const Failure failure = waiter.failure();
  if (failure == Failure::refused) throw waiter.refusal();
  if (failure != Failure::none && options_.on_failure == OnFailure::error) {
    throw_failure(failure, lane);
  }
}

// -------------------------------------------------------------------------------------- calls

Outcome ClientImpl::call(const Call& call, const std::stop_token& stop) {
  const BlockingCall blocking{*this};
  Outcome outcome;
  Waiter waiter{platform_, {&outcome.verdict, 1}};
  Target target{.waiter = &waiter, .index = 0, .callback = {}};
  if (call.options.wants_details) target.details = &outcome;
  call_on(lane_of(call.key), call, call.options, std::move(target), stop);
  outcome.failure = waiter.failure();
  return outcome;
}

Ticket ClientImpl::call_async(const Call& call, Client::Callback done) {
  Call timed = call;
  if (const auto limit = patience(call.options, options_.call_timeout)) {
    timed.deadline = platform_.about_now() + *limit;
  }
  if (!call.options.wants_details || !done) {
    return lane_of(call.key).add(timed,
                                 {.waiter = nullptr, .index = 0, .callback = std::move(done)});
  }
  const auto details = std::make_shared<Outcome>();
  const auto deliver = [details, done = std::move(done)](const Outcome& outcome) {
    details->verdict = outcome.verdict;
    details->failure = outcome.failure;
    done(*details);
  };
  return lane_of(call.key).add(
      timed, {.waiter = nullptr, .index = 0, .callback = deliver, .details = details.get()});
}

// The caller reads by itself over one lane; over several the I/O thread does.
void ClientImpl::run(Waiter& waiter, std::vector<Jobs> jobs_by_lane, Lane::Deadline deadline) {
  std::vector<uint32_t> used;
  for (uint32_t lane = 0; lane < jobs_by_lane.size(); ++lane) {
    if (!jobs_by_lane[lane].empty()) used.push_back(lane);
  }
  const auto reader = used.size() == 1 ? Lane::Reader::caller : Lane::Reader::io;
  for (const uint32_t lane : used) lanes_[lane].add(std::move(jobs_by_lane[lane]), reader);
  if (used.size() == 1) return lanes_[used.front()].await(waiter, deadline);
  wait_for(waiter, deadline);
}

// Blocks while the I/O thread reads.
void ClientImpl::wait_for(Waiter& waiter, Lane::Deadline deadline) {
  while (!waiter.is_done()) {
    waiter.wait_until(deadline);
    if (waiter.is_done() || !deadline || platform_.now() < *deadline) continue;
    bool has_moved_jobs = false;
    for (uint32_t lane = 0; lane < lanes_.count(); ++lane) {
      has_moved_jobs |= lanes_[lane].has_moved_jobs();
      lanes_[lane].leave(waiter);
    }
    deadline.reset();
    if (has_moved_jobs) deadline = platform_.now() + Lane::moving_time;
  }
}

// The failure policy decides the entries that failed.
BatchOutcome ClientImpl::result(BatchOutcome outcome) const {
  if (outcome.failed == 0) return outcome;
  outcome.failures.resize(outcome.verdicts.size());
  for (size_t i = 0; i < outcome.verdicts.size(); ++i) {
    const Failure failure = failure_marked(outcome.verdicts[i]);
    if (failure == Failure::none) continue;
    outcome.failures[i] = failure;
    outcome.verdicts[i] = outcome_of(failure, options_.on_failure).verdict;
  }
  const bool is_error =
      options_.on_failure == OnFailure::error || outcome.failure == Failure::refused;
  if (is_error) throw Incomplete(std::move(outcome));
  return outcome;
}

// Entries that may wait are single calls, because each gets its outcome at its own time.
BatchOutcome ClientImpl::one_by_one(std::span<const std::string_view> keys,
                                    const AcquireOptions& options) {
  BatchOutcome batch{.verdicts = std::vector<Verdict>(keys.size())};
  std::vector<Outcome> outcomes(keys.size());
  Waiter waiter{platform_, batch.verdicts};
  const auto deadline = deadline_of(options);
  Call call{.key = {}, .options = options};
  if (deadline) call.deadline = *deadline;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    call.key = keys[i];
    lane_of(keys[i]).add(call,
                         {.waiter = &waiter, .index = i, .callback = {}, .details = &outcomes[i]});
  }
  for (uint32_t lane = 0; lane < lanes_.count(); ++lane) lanes_[lane].find_reader();
  wait_for(waiter, deadline);
  if (options.wants_details) reserve_details(batch);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (options.wants_details) put_details(batch, i, outcomes[i]);
    if (outcomes[i].failure != Failure::none) batch.verdicts[i] = mark_of(outcomes[i].failure);
  }
  return result(take_failures(waiter, std::move(batch)));
}

BatchOutcome ClientImpl::batch(std::span<const std::string_view> keys,
                               const AcquireOptions& options) {
  const BlockingCall blocking{*this};
  if (keys.empty()) return {};
  if (options.may_wait) return one_by_one(keys, options);
  return result(ask(keys, options));
}

// For entries that may not wait. Failures stay in the outcome: the caller throws.
BatchOutcome ClientImpl::ask(std::span<const std::string_view> keys,
                             const AcquireOptions& options) {
  BatchOutcome batch{.verdicts = std::vector<Verdict>(keys.size())};
  if (options.wants_details) reserve_details(batch);
  Waiter waiter{platform_, batch.verdicts};
  const BatchColumns columns{options, std::min(keys.size(), slice_keys_max)};
  const auto shares = share_out_keys(keys);
  std::vector<Jobs> jobs(shares.size());
  for (size_t lane = 0; lane < shares.size(); ++lane) {
    for (const Cut& cut : cut_keys(shares[lane].entries, 2 + columns.bytes(2) / 2)) {
      jobs[lane].push_back(std::make_unique<KeySlice>(
          options_.on_failure, waiter, cut.first, shares[lane].places_of(cut),
          shares[lane].entries.subspan(cut.first, cut.count), cut.key_bytes, columns,
          options.wants_details ? &batch : nullptr));
    }
  }
  run(waiter, std::move(jobs), deadline_of(options));
  return take_failures(waiter, std::move(batch));
}

BatchOutcome ClientImpl::batch(std::span<const uint32_t> handles, const AcquireOptions& options) {
  const BlockingCall blocking{*this};
  if (handles.empty()) return {};
  const uint32_t largest = *std::max_element(handles.begin(), handles.end());
  if (largest >= handles_.count()) {
    throw std::invalid_argument("this client has no handle " + std::to_string(largest));
  }
  if (options.may_wait) {
    std::vector<std::string_view> keys;
    for (const uint32_t handle : handles) keys.push_back(handles_.key(handle));
    return one_by_one(keys, options);
  }
  BatchOutcome batch{.verdicts = std::vector<Verdict>(handles.size())};
  if (options.wants_details) reserve_details(batch);
  Waiter waiter{platform_, batch.verdicts};
  const BatchColumns columns{options, std::min(handles.size(), slice_handles_max)};
  const auto shares = share_out(handles, lanes_.count(), [this](uint32_t handle) {
    return usable_lane(lane_of_tag(HandleTable::link_tag_of(handles_.handle_slot(handle))));
  });
  std::vector<Jobs> jobs(shares.size());
  for (uint32_t lane = 0; lane < shares.size(); ++lane) {
    for (const Cut& cut : cut_handles(shares[lane].entries.size())) {
      jobs[lane].push_back(std::make_unique<HandleSlice>(
          options_.on_failure, waiter, cut.first, shares[lane].places_of(cut),
          shares[lane].entries.subspan(cut.first, cut.count), columns, handles_,
          lanes_[lane].link_tag(), options.wants_details ? &batch : nullptr));
    }
  }
  const auto deadline = deadline_of(options);
  run(waiter, std::move(jobs), deadline);
  const bool is_held =
      std::ranges::find(batch.verdicts, HandleSlice::not_held) == batch.verdicts.end();
  batch = take_failures(waiter, std::move(batch));
  if (is_held) return result(std::move(batch));
  return ask_rest_by_key(handles, std::move(batch), options);
}

// Acquires by key where no connection holds a handle, because the server had no room to intern the
// key again.
BatchOutcome ClientImpl::ask_rest_by_key(std::span<const uint32_t> handles, BatchOutcome outcome,
                                         const AcquireOptions& options) {
  std::vector<uint32_t> places;
  std::vector<std::string_view> keys;
  for (uint32_t i = 0; i < handles.size(); ++i) {
    if (outcome.verdicts[i] != HandleSlice::not_held) continue;
    places.push_back(i);
    keys.push_back(handles_.key(handles[i]));
  }
  BatchOutcome rest = ask(keys, options);
  for (size_t i = 0; i < places.size(); ++i) {
    outcome.verdicts[places[i]] = rest.verdicts[i];
    if (options.wants_details) put_details(outcome, places[i], rest[i]);
  }
  outcome.failed += rest.failed;
  if (outcome.failure == Failure::none) outcome.failure = rest.failure;
  return result(std::move(outcome));
}

// Asks one question and lets `take` read the answer; throws without an answer, under every policy.
void ClientImpl::ask(uint32_t lane, Question::Encode encode, Question::Take take,
                     const uint32_t** link_tag) {
  const BlockingCall blocking{*this};
  Verdict unused = Verdict::none;
  Waiter waiter{platform_, {&unused, 1}};
  const Question::Target target{.waiter = &waiter, .link_tag = link_tag};
  run_question(
      lane,
      std::make_unique<Question>(OnFailure::error, target, std::move(encode), std::move(take)),
      waiter);
}

void ClientImpl::ask_owner(std::string_view key, Question::Encode encode, Question::Take take) {
  const BlockingCall blocking{*this};
  Verdict unused = Verdict::none;
  Waiter waiter{platform_, {&unused, 1}};
  const Question::Target target{.waiter = &waiter, .may_move = !connector_.has_fleet()};
  run_question(
      connected_owner_lane(key),
      std::make_unique<Question>(OnFailure::error, target, std::move(encode), std::move(take)),
      waiter);
}

void ClientImpl::run_question(uint32_t lane, std::unique_ptr<Job> question, Waiter& waiter) {
  Jobs jobs;
  jobs.push_back(std::move(question));
  lanes_[lane].add(std::move(jobs), Lane::Reader::caller);
  lanes_[lane].await(waiter, platform_.now() + options_.call_timeout);
  if (waiter.failure() == Failure::refused) throw waiter.refusal();
  if (waiter.failure() != Failure::none) throw_failure(waiter.failure(), lanes_[lane]);
}

void ClientImpl::ping() {
  ask(
      home_lane(), [](uint64_t id, std::vector<uint64_t>& out) { encode(id, Ping{}, out); },
      [](const Answer& answer) {
        if (!std::holds_alternative<Pong>(answer)) throw_unexpected(answer);
      });
}

// Interns keys whose handle slots are not valid on the lane's current connection. Another lane may
// take the question over: then the handles are those of its connection.
void ClientImpl::intern_on(uint32_t lane, std::span<const uint32_t> handles,
                           std::vector<Verdict>& verdicts) {
  std::vector<std::string_view> keys;
  for (const uint32_t handle : handles) keys.push_back(handles_.key(handle));
  for (const Cut& cut : cut_keys(keys, 2)) {
    const auto asked = std::span{keys}.subspan(cut.first, cut.count);
    const uint32_t* link_tag = &lanes_[lane].link_tag();
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
            handles_.set_handle_slot(handles[cut.first + i], *link_tag, interned->handles[i]);
          }
        },
        &link_tag);
  }
}

std::vector<uint32_t> ClientImpl::intern(std::span<const std::string_view> keys) {
  std::vector<uint32_t> handles(keys.size());
  std::vector<std::vector<uint32_t>> missing_by_lane(LaneSet::lanes_max);
  std::unordered_map<uint32_t, Verdict> outcomes;  // of those without a valid handle slot
  for (size_t i = 0; i < keys.size(); ++i) {
    handles[i] = handles_.add(keys[i]);
    const uint32_t lane = lane_index(keys[i]);
    const bool is_held =
        lanes_[lane].holds(HandleTable::link_tag_of(handles_.handle_slot(handles[i])));
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

}  // namespace sluicegate
