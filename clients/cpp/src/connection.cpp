#include "sluicegate/connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "proto/key_hash.hpp"
#include "socket.hpp"

namespace sluicegate {
namespace {

constexpr size_t read_bytes_min = 64 * 1024;  // room before a read

[[noreturn]] void throw_unexpected(const Answer& answer) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) {
    throw Refused(refusal->code, std::string{refusal->text});
  }
  throw ProtocolError("the server sent an answer of another kind than the question");
}

void require_interned(const Interned& answer) {
  size_t failed = 0;
  size_t first_failed = 0;
  for (size_t i = answer.handles.size(); i-- > 0;) {
    const bool approved = answer.verdicts[i] == Verdict::approved;
    if (approved && answer.handles[i] == no_handle) {
      throw ProtocolError("the server interned a key and gave no handle");
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

Connection::Connection(const std::string& host, uint16_t port, ConnectOptions options)
    : peer_{host + ":" + std::to_string(port)}, call_timeout_{options.call_timeout} {
  const auto begin = Clock::now();
  socket_ = connect_tcp(host, port, options.connect_timeout);
  options.connect_timeout -= std::chrono::duration_cast<Milliseconds>(Clock::now() - begin);
  try {
    handshake(options);
  } catch (...) {
    close(socket_);  // the destructor does not run for a constructor that throws
    throw;
  }
}

Connection::~Connection() {
  close(socket_);
}

void Connection::handshake(const ConnectOptions& options) {
  encode(0, Hello{options.client_name, options.wanted_shard}, output_);
  const auto frame = wait_frame(Clock::now() + options.connect_timeout);
  if (!frame) throw TimedOut("no Welcome from " + peer_ + " in time");
  const Answer answer = settle(*frame);
  const auto* welcome = std::get_if<Welcome>(&answer);
  if (welcome == nullptr) throw_unexpected(answer);
  welcome_ = *welcome;
}

uint32_t Connection::owner_shard(std::string_view key) const noexcept {
  if (!welcome_.routing_known || welcome_.shards == 0) return welcome_.shard;
  const uint64_t hash = sluice::proto::routing_hash(key, welcome_.routing_seed);
  return sluice::proto::owner_shard(hash, welcome_.shards);
}

// ------------------------------------------------------------------------------ sending

bool Connection::has_room(size_t frame_bytes) const noexcept {
  return outstanding_.count() < welcome_.outstanding_frames_max &&
         outstanding_.bytes() + frame_bytes <= welcome_.outstanding_bytes_max;
}

void Connection::check_entries(size_t entries_count) const {
  if (entries_count == 0) throw LimitExceeded("a frame needs at least one entry");
  if (entries_count > welcome_.frame_entries_max) {
    throw LimitExceeded("a frame may hold " + std::to_string(welcome_.frame_entries_max) +
                        " entries, not " + std::to_string(entries_count));
  }
}

void Connection::check(const Intern& intern) const {
  check_entries(intern.keys.size());
  if (welcome_.handles_max == 0) throw LimitExceeded("this server has no handles");
  if (intern.keys.size() > welcome_.handles_max) {
    throw LimitExceeded("a connection may have " + std::to_string(welcome_.handles_max) +
                        " handles, not " + std::to_string(intern.keys.size()));
  }
}

template <typename Request>
uint64_t Connection::queue(const Request& request) {
  check(request);
  if (draining_) throw Refused(ErrorCode::draining, "the server shuts down");
  const size_t begin = output_.size();
  encode(next_id_, request, output_);
  const size_t frame_bytes = (output_.size() - begin) * sizeof(uint64_t);
  if (frame_bytes > welcome_.frame_bytes_max || !has_room(frame_bytes)) {
    output_.resize(begin);
    if (frame_bytes > welcome_.frame_bytes_max) {
      throw LimitExceeded("a frame may have " + std::to_string(welcome_.frame_bytes_max) +
                          " bytes, not " + std::to_string(frame_bytes));
    }
    throw LimitExceeded("as many frames are outstanding as the server allows; receive first");
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

// Writes what the socket takes; true when nothing is left.
bool Connection::write_some() {
  const size_t end_bytes = output_.size() * sizeof(uint64_t);
  const auto* bytes = reinterpret_cast<const std::byte*>(output_.data());
  while (output_begin_bytes_ < end_bytes) {
    const ssize_t written =
        ::send(socket_, bytes + output_begin_bytes_, end_bytes - output_begin_bytes_, MSG_NOSIGNAL);
    ++traffic_.system_calls;
    if (written >= 0) {
      output_begin_bytes_ += static_cast<size_t>(written);
      traffic_.bytes_sent += static_cast<uint64_t>(written);
    } else if (errno == EAGAIN) {
      drop_written();
      return false;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return false;  // an Error frame may still lie in the socket; reading tells
    } else if (errno != EINTR) {
      throw ConnectionLost("sending to " + peer_ + " failed: " + std::strerror(errno));
    }
  }
  output_.clear();
  output_begin_bytes_ = 0;
  return true;
}

// Lest a connection that never catches up keeps everything it ever wrote: when less is left than
// was written, so that each byte moves once at most.
void Connection::drop_written() {
  const size_t written_words = output_begin_bytes_ / sizeof(uint64_t);
  if (written_words <= output_.size() - written_words) return;
  output_.erase(output_.begin(), output_.begin() + static_cast<ptrdiff_t>(written_words));
  output_begin_bytes_ -= written_words * sizeof(uint64_t);
}

void Connection::flush() {
  while (!write_some()) {
    if (!poll_until(POLLIN | POLLOUT, call_deadline())) {
      throw TimedOut("the server at " + peer_ + " takes no more bytes");
    }
    read_some();
  }
}

// ---------------------------------------------------------------------------- receiving

bool Connection::poll_until(short events, std::optional<Clock::time_point> deadline) {
  ++traffic_.system_calls;
  if (!deadline) return wait_for(socket_, events, Milliseconds{-1});
  const auto left = std::chrono::ceil<Milliseconds>(*deadline - Clock::now());
  return wait_for(socket_, events, std::max(left, Milliseconds{0}));
}

// Takes what the socket holds now; false when that is nothing. Views into the input end here.
bool Connection::read_some() {
  if (input_begin_bytes_ > 0) {
    auto* bytes = reinterpret_cast<std::byte*>(input_.data());
    std::memmove(bytes, bytes + input_begin_bytes_, input_end_bytes_ - input_begin_bytes_);
    input_end_bytes_ -= input_begin_bytes_;
    input_begin_bytes_ = 0;
  }
  if (input_.size() * sizeof(uint64_t) - input_end_bytes_ < read_bytes_min) {
    input_.resize(input_.size() * 2 + read_bytes_min / sizeof(uint64_t));
  }
  auto* bytes = reinterpret_cast<std::byte*>(input_.data());
  const ssize_t got = recv(socket_, bytes + input_end_bytes_,
                           input_.size() * sizeof(uint64_t) - input_end_bytes_, 0);
  ++traffic_.system_calls;
  if (got > 0) {
    input_end_bytes_ += static_cast<size_t>(got);
    traffic_.bytes_received += static_cast<uint64_t>(got);
    return true;
  }
  if (got == 0) {
    throw ConnectionLost("the server at " + peer_ + " closed the connection");
  } else if (errno != EAGAIN && errno != EINTR) {
    throw ConnectionLost("receiving from " + peer_ + " failed: " + std::strerror(errno));
  }
  return false;
}

// The frame that lies whole at the front of the input.
std::optional<Connection::Frame> Connection::whole_frame() const {
  const auto words = std::span{input_}.subspan(input_begin_bytes_ / sizeof(uint64_t));
  const size_t whole_words = (input_end_bytes_ - input_begin_bytes_) / sizeof(uint64_t);
  const auto length_words = frame_words(words.first(whole_words));
  if (!length_words || *length_words > whole_words) return std::nullopt;
  return words.first(*length_words);
}

std::optional<Connection::Frame> Connection::next_frame() {
  const auto frame = whole_frame();
  if (frame) input_begin_bytes_ += frame->size_bytes();
  return frame;
}

bool Connection::has_answer() const {
  return !kept_.empty() || whole_frame();
}

// Decodes a frame that just came and notes what it settles.
Answer Connection::settle(Frame frame) {
  Answer answer = decode(frame);
  if (std::holds_alternative<GoAway>(answer)) draining_ = true;
  outstanding_.remove(id_of(answer));
  return answer;
}

// The next frame from the wire; nothing when none is whole at the deadline.
std::optional<Connection::Frame> Connection::wait_frame(std::optional<Clock::time_point> deadline) {
  for (;;) {
    if (const auto frame = next_frame()) return frame;
    const bool all_written = write_some();
    if (read_some()) continue;  // mostly something has come: no need to ask first
    if (deadline && Clock::now() >= *deadline) return std::nullopt;
    if (!poll_until(static_cast<short>(all_written ? POLLIN : POLLIN | POLLOUT), deadline)) {
      return std::nullopt;
    }
  }
}

std::optional<Answer> Connection::receive(Milliseconds timeout) {
  if (!kept_.empty()) {
    current_ = std::move(kept_.front());
    kept_.pop_front();
    return decode(current_);
  }
  auto frame = next_frame();  // a frame that is there already costs no look at the clock
  if (!frame) frame = wait_frame(Clock::now() + timeout);
  if (!frame) return std::nullopt;
  return settle(*frame);
}

// -------------------------------------------------------------------------- blocking calls

// The next answer to `id`; answers to others are kept for receive().
Answer Connection::await(uint64_t id, std::optional<Clock::time_point> deadline) {
  for (;;) {
    const auto frame = wait_frame(deadline);
    if (!frame) throw TimedOut("no answer from " + peer_ + " in time");
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

// Asks for `count` entries that all have the same options.
template <typename Question>
std::vector<Verdict> Connection::acquire_all(Question question, size_t count,
                                             const AcquireOptions& options) {
  const auto column = [&](uint32_t value, uint32_t absent) {
    return std::vector<uint32_t>(value == absent ? 0 : count, value);
  };
  const auto costs = column(options.cost, 1);
  const auto max_requests = column(options.max_requests, keep);
  const auto max_requests_in_queue = column(options.max_requests_in_queue, keep);
  question.costs = costs;
  question.max_requests = max_requests;
  question.max_requests_in_queue = max_requests_in_queue;
  question.all_may_wait = options.may_wait;
  question.wait_limit_ms = options.wait_limit_ms;
  const uint64_t id = send(question);
  std::optional<Clock::time_point> deadline;
  if (!options.may_wait || options.wait_limit_ms > 0) {
    deadline = call_deadline() + Milliseconds{options.wait_limit_ms};
  }
  return await_verdicts(id, count, deadline);
}

// The verdicts of an Acquire, those of waiting entries included.
std::vector<Verdict> Connection::await_verdicts(uint64_t id, size_t count,
                                                std::optional<Clock::time_point> deadline) {
  std::vector<Verdict> result(count);
  size_t waiting = 0;
  {
    const Answer answer = await(id, deadline);
    const auto* first = std::get_if<Verdicts>(&answer);
    if (first == nullptr) throw_unexpected(answer);
    if (first->verdicts.size() != count) {
      throw ProtocolError("the server answered another number of entries than it was asked");
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
    throw ProtocolError("the server gave another number of handles than it was asked for");
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
  await_done(send(request));
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
