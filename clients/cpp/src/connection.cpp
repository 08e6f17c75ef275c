#include "sluicegate/connection.hpp"

#include <poll.h>

#include <algorithm>

#include "patience.hpp"
#include "proto/key_hash.hpp"

namespace sluicegate {
namespace {

void require_interned(const Interned& answer) {
  size_t failed = 0;
  size_t first_failed = 0;
  for (size_t i = answer.handles.size(); i-- > 0;) {
    const bool approved = answer.verdicts[i] == Verdict::approved;
    if (approved && answer.handles[i] == no_handle) {
      throw ProtocolError("the server interned a key without a handle");
    }
    failed += approved ? 0 : 1;
    first_failed = approved ? first_failed : i;
  }
  if (failed == 0) return;
  std::vector<Verdict> verdicts(answer.handles.size());
  answer.verdicts.copy_to(verdicts);
  const std::string text = std::to_string(failed) + " of " + std::to_string(verdicts.size()) +
                           " keys of a frame got no handle, the first of them at place " +
                           std::to_string(first_failed) + ": " +
                           std::string{name(verdicts[first_failed])};
  throw NotInterned(text, {answer.handles.begin(), answer.handles.end()}, std::move(verdicts));
}

}  // namespace

Connection::Connection(const std::string& host, uint16_t port, const ConnectOptions& options)
    : link_{host, port, options}, call_timeout_{options.call_timeout} {}

uint32_t Connection::owner_shard(std::string_view key) const noexcept {
  if (!welcome().routing_known || welcome().shards == 0) return welcome().shard;
  const uint64_t hash = sluice::proto::routing_hash(key, welcome().routing_seed);
  return sluice::proto::owner_shard(hash, welcome().shards);
}

// ------------------------------------------------------------------------------ sending

bool Connection::has_room(size_t frame_bytes) const noexcept {
  return outstanding_.count() < welcome().outstanding_frames_max &&
         outstanding_.bytes() + frame_bytes <= welcome().outstanding_bytes_max;
}

void Connection::check_entries(size_t entries_count) const {
  if (entries_count == 0) throw LimitExceeded("a frame needs at least one entry");
  if (entries_count > welcome().frame_entries_max) {
    throw LimitExceeded("a frame may hold " + std::to_string(welcome().frame_entries_max) +
                        " entries, not " + std::to_string(entries_count));
  }
}

void Connection::check(const Intern& intern) const {
  check_entries(intern.keys.size());
  if (welcome().handles_max == 0) throw LimitExceeded("this server has no handles");
  if (intern.keys.size() > welcome().handles_max) {
    throw LimitExceeded("a connection may have " + std::to_string(welcome().handles_max) +
                        " handles, not " + std::to_string(intern.keys.size()));
  }
}

template <typename Request>
uint64_t Connection::queue(const Request& request) {
  check(request);
  std::vector<uint64_t>& output = link_.output();
  if (draining_) throw Refused(ErrorCode::draining, "it is shutting down");
  const size_t begin = output.size();
  encode(next_id_, request, output);
  const size_t frame_bytes = (output.size() - begin) * sizeof(uint64_t);
  if (frame_bytes > welcome().frame_bytes_max || !has_room(frame_bytes)) {
    output.resize(begin);
    if (frame_bytes > welcome().frame_bytes_max) {
      throw LimitExceeded("a frame may have " + std::to_string(welcome().frame_bytes_max) +
                          " bytes, not " + std::to_string(frame_bytes));
    }
    throw LimitExceeded("the server allows no more outstanding frames; receive first");
  }
  outstanding_.add(next_id_, static_cast<uint32_t>(frame_bytes));
  return next_id_++;
}

uint64_t Connection::send(const Acquire& request) {
  return queue(request);
}
uint64_t Connection::send(const AcquireByHandle& request) {
  return queue(request);
}
uint64_t Connection::send(const Release& request) {
  return queue(request);
}
uint64_t Connection::send(const Withdraw& request) {
  return queue(request);
}
uint64_t Connection::send(const Inspect& request) {
  return queue(request);
}
uint64_t Connection::send(const Intern& request) {
  return queue(request);
}
uint64_t Connection::send(const Forget& request) {
  return queue(request);
}
uint64_t Connection::send(const Ping& request) {
  return queue(request);
}

void Connection::flush() {
  while (!link_.write_some()) {
    if (!link_.poll_until(POLLIN | POLLOUT, call_deadline())) {
      throw TimedOut("the server at " + link_.peer() + " takes no more bytes");
    }
    link_.read_some();
  }
}

// ---------------------------------------------------------------------------- receiving

bool Connection::has_answer() const {
  return !kept_.empty() || link_.has_frame();
}

// Decodes a received frame and removes the request that it answers.
Answer Connection::settle(Frame frame) {
  Answer answer = decode(frame);
  if (std::holds_alternative<GoAway>(answer)) draining_ = true;
  outstanding_.remove(id_of(answer));
  return answer;
}

std::optional<Answer> Connection::receive(Milliseconds timeout) {
  if (!kept_.empty()) {
    current_ = std::move(kept_.front());
    kept_.pop_front();
    return decode(current_);
  }
  auto frame = link_.next_frame();  // a frame that has arrived needs no clock read
  if (!frame) frame = link_.wait_frame(Clock::now() + timeout);
  if (!frame) return std::nullopt;
  return settle(*frame);
}

// -------------------------------------------------------------------------- blocking calls

// The next answer to `id`; keeps other answers for receive().
Answer Connection::await(uint64_t id, std::optional<Clock::time_point> deadline) {
  for (;;) {
    const auto frame = link_.wait_frame(deadline);
    if (!frame) throw TimedOut("no answer from " + link_.peer() + " in time");
    Answer answer = settle(*frame);
    if (id_of(answer) == id) return answer;
    if (id_of(answer) == 0 && std::holds_alternative<Refusal>(answer)) throw_unexpected(answer);
    kept_.emplace_back(frame->begin(), frame->end());
  }
}

void Connection::await_done(uint64_t id) {
  const Answer answer = await(id, call_deadline());
  if (!std::holds_alternative<Done>(answer)) throw_unexpected(answer);
}

Verdict Connection::acquire(std::string_view key, const AcquireOptions& options) {
  return acquire(std::span{&key, 1}, options).front();
}

std::vector<Verdict> Connection::acquire(std::span<const std::string_view> keys,
                                         const AcquireOptions& options) {
  return acquire_all(Acquire{.keys = keys}, keys.size(), options);
}

std::vector<Verdict> Connection::acquire(std::span<const uint32_t> handles,
                                         const AcquireOptions& options) {
  return acquire_all(AcquireByHandle{.handles = handles}, handles.size(), options);
}

// Acquires `count` entries that all have the same options.
template <typename Question>
std::vector<Verdict> Connection::acquire_all(Question question, size_t count,
                                             const AcquireOptions& options) {
  const auto column = [&]<typename T>(T value, T absent) {
    return std::vector<T>(value == absent ? 0 : count, value);
  };
  const auto costs = column(options.cost, 1U);
  const auto max_requests = column(options.max_requests, keep);
  const auto max_requests_in_queue = column(options.max_requests_in_queue, keep);
  const auto window_ms = column(options.window_ms, keep_window);
  question.costs = costs;
  question.max_requests = max_requests;
  question.max_requests_in_queue = max_requests_in_queue;
  question.window_ms = window_ms;
  question.all_may_wait = options.may_wait;
  question.wait_limit_ms = options.wait_limit_ms;
  const uint64_t id = send(question);
  std::optional<Clock::time_point> deadline;
  if (const auto limit = patience(options, call_timeout_)) deadline = Clock::now() + *limit;
  return await_verdicts(id, count, deadline);
}

// The verdicts of an Acquire, including those of waiting entries.
std::vector<Verdict> Connection::await_verdicts(uint64_t id, size_t count,
                                                std::optional<Clock::time_point> deadline) {
  std::vector<Verdict> result(count);
  size_t waiting = 0;
  {
    const Answer answer = await(id, deadline);
    const auto* first = std::get_if<Verdicts>(&answer);
    if (first == nullptr) throw_unexpected(answer);
    if (first->verdicts.size() != count) {
      throw ProtocolError("the server answered a wrong number of entries");
    }
    first->verdicts.copy_to(result);
    waiting = static_cast<size_t>(std::count(result.begin(), result.end(), Verdict::queued));
  }
  while (waiting > 0) {
    const Answer answer = await(id, deadline);
    const auto* late = std::get_if<Granted>(&answer);
    if (late == nullptr) throw_unexpected(answer);
    for (size_t i = 0; i < late->entries.size(); ++i, --waiting) {
      const uint32_t entry = late->entries[i];
      if (entry >= count || result[entry] != Verdict::queued) {
        throw ProtocolError("the server granted an entry that does not wait");
      }
      result[entry] = late->verdicts[i];
    }
  }
  return result;
}

std::vector<uint32_t> Connection::intern(std::span<const std::string_view> keys) {
  const Answer answer = await(send(Intern{.keys = keys}), call_deadline());
  const auto* interned = std::get_if<Interned>(&answer);
  if (interned == nullptr) throw_unexpected(answer);
  if (interned->handles.size() != keys.size()) {
    throw ProtocolError("the server sent a wrong number of handles");
  }
  require_interned(*interned);
  return {interned->handles.begin(), interned->handles.end()};
}

void Connection::forget(std::span<const uint32_t> handles) {
  await_done(send(Forget{.handles = handles}));
}

void Connection::release(std::string_view key, uint32_t cost) {
  release(Release{.keys = {&key, 1}, .costs = {&cost, 1}});
}

void Connection::release(const Release& request) {
  const Answer answer = await(send(request), call_deadline());
  if (std::holds_alternative<Done>(answer)) return;
  const auto* verdicts = std::get_if<Verdicts>(&answer);
  if (verdicts == nullptr || verdicts->verdicts.size() != request.keys.size()) {
    throw_unexpected(answer);
  }
  for (size_t i = 0; i < request.keys.size(); ++i) {
    if (verdicts->verdicts[i] != Verdict::owner_unreachable) continue;
    throw OwnerUnreachable::of_key(request.keys[i]);
  }
}

void Connection::withdraw(const Withdraw& request) {
  await_done(send(request));
}

std::optional<InspectedKey> Connection::inspect(std::string_view key) {
  const Answer answer = await(send(Inspect{.key = key}), call_deadline());
  const auto* inspected = std::get_if<Inspected>(&answer);
  if (inspected == nullptr) throw_unexpected(answer);
  if (inspected->keys.empty()) return std::nullopt;
  InspectedKey found = inspected->keys.front();
  found.key = key;
  return found;
}

void Connection::ping() {
  const Answer answer = await(send(Ping{}), call_deadline());
  if (!std::holds_alternative<Pong>(answer)) throw_unexpected(answer);
}

std::unique_ptr<Connection> connect_to_owner(const std::string& host, uint16_t port,
                                             std::string_view key, ConnectOptions options) {
  auto connection = std::make_unique<Connection>(host, port, options);
  const uint32_t owner = connection->owner_shard(key);
  if (owner == connection->welcome().shard) return connection;
  options.wanted_shard = owner;
  return std::make_unique<Connection>(host, port, std::move(options));
}

}  // namespace sluicegate
