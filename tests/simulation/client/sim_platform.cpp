#include "sim_platform.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sluicegate/error.hpp"
#include "sluicegate/link.hpp"

namespace sluicegate::simulation {

using namespace std::chrono_literals;

SimPlatform::SimPlatform(uint64_t seed) : dice_{seed} {
  threads_.push_back(std::make_unique<Thread>());
  self() = threads_.back().get();
}

SimPlatform::Thread*& SimPlatform::self() noexcept {
  thread_local Thread* current = nullptr;
  return current;
}

// ------------------------------------------------------------------------------------- threads

void SimPlatform::allow_to_go(Thread& thread) noexcept {
  thread.may_go = 1;
  real_platform().wake(&thread.may_go);
}

// Without spinning, which takes long on a busy machine.
void SimPlatform::wait_to_go(Thread& thread) noexcept {
  while (thread.may_go.exchange(0) == 0) real_platform().sleep(thread.may_go, 0, std::nullopt);
}

// Another thread may go on here.
void SimPlatform::yield() noexcept {
  if (undisturbed_ == 0 && dice_.percent(50)) go_on();
}

bool SimPlatform::block(const char* what, Deadline deadline) noexcept {
  Thread& me = *self();
  me.can_run = false;
  me.is_late = false;
  me.waits_for = what;
  me.deadline = deadline;
  go_on();
  me.deadline.reset();
  return !me.is_late;
}

void SimPlatform::go_on() {
  Thread* next = pick();
  ++switches_;
  if (next == self()) return;
  Thread* me = self();
  allow_to_go(*next);
  if (!me->has_ended) wait_to_go(*me);
}

SimPlatform::Thread* SimPlatform::pick() {
  for (;;) {
    std::vector<Thread*> able;
    for (const auto& each : threads_) {
      if (!each->watched.empty() && !each->can_run) each->can_run = has_events(each->watched);
      if (each->joined != nullptr && each->joined->has_ended) each->can_run = true;
      if (each->can_run && !each->has_ended) able.push_back(each.get());
    }
    if (!able.empty()) return able[dice_.below(able.size())];
    move_clock();
  }
}

void SimPlatform::move_clock() {
  Time next = Time::max();
  if (!agenda_.empty()) next = agenda_.begin()->first;
  for (const auto& each : threads_) {
    if (!each->has_ended && each->deadline) next = std::min(next, *each->deadline);
  }
  if (next == Time::max()) give_up();
  now_ = std::max(now_, next);
  while (!agenda_.empty() && agenda_.begin()->first <= now_) {
    const auto event = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    event();
  }
  for (const auto& each : threads_) {
    if (each->has_ended || each->can_run || !each->deadline || *each->deadline > now_) continue;
    each->is_late = each->can_run = true;
    if (each->gate != nullptr) failures_.insert(now_);
  }
}

void SimPlatform::give_up() {
  std::fprintf(stderr, "no thread of the client will ever run again:\n");
  for (const auto& each : threads_) {
    if (!each->has_ended) std::fprintf(stderr, "  one waits for %s\n", each->waits_for);
  }
  std::abort();
}

Time SimPlatform::about_now() noexcept {
  yield();
  return now_ + std::chrono::milliseconds{dice_.below(11)};
}

bool SimPlatform::sleep(Gate& gate, uint32_t value, Deadline deadline) noexcept {
  yield();
  if (gate.load() != value) return true;
  self()->gate = &gate;
  const bool in_time = block("a gate", deadline);
  self()->gate = nullptr;
  return in_time;
}

void SimPlatform::wake(Gate* gate) noexcept {
  for (const auto& each : threads_) each->can_run |= each->gate == gate;
}

void SimPlatform::pause(Clock::duration length) {
  block("time to pass", now_ + length);
}

std::thread SimPlatform::start(std::function<void()> run) {
  threads_.push_back(std::make_unique<Thread>());
  Thread* added = threads_.back().get();
  std::thread thread{[this, added, run = std::move(run)] {
    self() = added;
    wait_to_go(*added);
    run();
    added->has_ended = true;
    added->can_run = false;
    go_on();
  }};
  added->id = thread.get_id();
  return thread;
}

void SimPlatform::join(std::thread& thread) {
  for (const auto& each : threads_) {
    if (each->id == thread.get_id()) self()->joined = each.get();
  }
  if (!self()->joined->has_ended) block("the end of a thread", std::nullopt);
  self()->joined->id = {};  // another thread may have it later
  self()->joined = nullptr;
  thread.join();
}

// ------------------------------------------------------------------------- the client's sockets

int SimPlatform::connect(const std::string& host, uint16_t port, std::chrono::milliseconds timeout,
                         const std::atomic<bool>* stop) {
  yield();
  const std::string where = host + ":" + std::to_string(port);
  if (attempt_failed_) shortest_pause_ = std::min(shortest_pause_, now_ - *attempt_failed_);
  attempt_failed_.reset();
  const Arrival arrival = listener_->knock();
  if (arrival == Arrival::refused) {
    note_failed_attempt();
    throw ConnectionLost("cannot connect to " + where);
  }
  if (arrival == Arrival::silent) {
    const Time deadline = now_ + timeout;
    while (now_ < deadline && (stop == nullptr || !*stop)) {
      pause(std::min(delayed(now_ + 50ms), deadline) - now_);
    }
    note_failed_attempt();
    throw TimedOut("no connection to " + where + " in time");
  }
  const int socket = next_descriptor_++;
  sockets_[socket].last_arrival = now_;
  listener_->accept(static_cast<uint32_t>(socket));
  return socket;
}

void SimPlatform::note_failed_attempt() {
  failures_.insert(now_);
  attempt_failed_ = now_;
}

ssize_t SimPlatform::send(int socket, std::span<const std::byte> bytes) noexcept {
  yield();
  Socket& to = sockets_.at(socket);
  if (to.is_shut || to.has_ended || to.is_reset) {
    errno = to.is_reset ? ECONNRESET : EPIPE;
    return -1;
  }
  if (to.is_full) {
    errno = EAGAIN;
    return -1;
  }
  size_t taken = bytes.size();
  if (dice_.percent(10)) {
    taken = 1 + dice_.below(bytes.size());
    to.is_full = true;
    after(std::chrono::microseconds{dice_.below(20'000)}, [this, socket] {
      if (const auto found = sockets_.find(socket); found != sockets_.end()) {
        found->second.is_full = false;
      }
    });
  }
  listener_->receive(static_cast<uint32_t>(socket),
                     {reinterpret_cast<const char*>(bytes.data()), taken});
  yield();
  return static_cast<ssize_t>(taken);
}

ssize_t SimPlatform::receive(int socket, std::span<std::byte> room) noexcept {
  yield();
  Socket& from = sockets_.at(socket);
  if (from.is_shut) return 0;
  if (from.inbound.empty()) {
    if (from.has_ended) return 0;
    errno = from.is_reset ? ECONNRESET : EAGAIN;
    return -1;
  }
  size_t taken = std::min(from.inbound.size(), room.size());
  if (dice_.percent(20)) taken = 1 + dice_.below(taken);
  std::memcpy(room.data(), from.inbound.data(), taken);
  from.inbound.erase(0, taken);
  return static_cast<ssize_t>(taken);
}

void SimPlatform::shut_down(int socket) noexcept {
  Socket& shut = sockets_.at(socket);
  if (shut.is_shut) return;
  shut.is_shut = true;
  ++shut.epoch;
  listener_->client_left(static_cast<uint32_t>(socket));
}

void SimPlatform::close(int socket) noexcept {
  if (events_.erase(socket) > 0) return;
  shut_down(socket);
  failures_.insert(now_);
  sockets_.erase(socket);
}

int SimPlatform::open_event() {
  events_[next_descriptor_] = false;
  return next_descriptor_++;
}

short SimPlatform::events_of(int descriptor, short wanted) {
  int found = 0;
  if (const auto event = events_.find(descriptor); event != events_.end()) {
    found = event->second ? POLLIN : 0;
  } else if (const auto socket = sockets_.find(descriptor); socket != sockets_.end()) {
    const Socket& at = socket->second;
    const bool is_over = at.has_ended || at.is_reset || at.is_shut;
    if (is_over || !at.inbound.empty()) found |= POLLIN;
    if (is_over) found |= POLLRDHUP;
    if (!at.is_full || is_over) found |= POLLOUT;
    if (at.is_reset || at.is_shut) return static_cast<short>((found & wanted) | POLLHUP);
  }
  return static_cast<short>(found & wanted);
}

bool SimPlatform::has_events(std::span<pollfd> watched) {
  return std::any_of(watched.begin(), watched.end(), [this](const pollfd& each) {
    return each.fd >= 0 && events_of(each.fd, each.events) != 0;
  });
}

bool SimPlatform::poll(std::span<pollfd> watched, Deadline deadline) {
  yield();
  if (!has_events(watched)) {
    if (deadline && *deadline <= now_) {
      for (pollfd& each : watched) each.revents = 0;
      return false;
    }
    self()->watched = watched;
    block("a socket", deadline ? Deadline{delayed(*deadline)} : deadline);
    self()->watched = {};
  }
  for (pollfd& each : watched)
    each.revents = each.fd < 0 ? short{0} : events_of(each.fd, each.events);
  return has_events(watched);
}

// ------------------------------------------------------------------------- the server's sockets

void SimPlatform::after(Clock::duration delay, std::function<void()> event) {
  agenda_.emplace(now_ + delay, std::move(event));
}

// In one to three parts, each of which may take a while; never before the bytes written earlier.
void SimPlatform::write(uint32_t connection, std::string bytes, std::function<void()> arrived) {
  const int socket = static_cast<int>(connection);
  const auto found = sockets_.find(socket);
  if (found == sockets_.end() || found->second.is_shut) return;
  const uint32_t epoch = found->second.epoch;
  size_t begin = 0;
  while (begin < bytes.size()) {
    const bool is_split = dice_.percent(25);
    const size_t count = is_split ? 1 + dice_.below(bytes.size() - begin) : bytes.size() - begin;
    const auto way =
        std::chrono::microseconds{dice_.percent(5) ? dice_.below(100'000) : dice_.below(300)};
    Time& last = found->second.last_arrival;
    last = std::max(last, now_ + way);
    const bool is_last = begin + count == bytes.size();
    agenda_.emplace(last, [this, socket, epoch, part = bytes.substr(begin, count),
                           done = is_last ? arrived : nullptr] {
      const auto to = sockets_.find(socket);
      if (to == sockets_.end() || to->second.epoch != epoch) return;
      to->second.inbound += part;
      if (done) done();
    });
    begin += count;
  }
}

void SimPlatform::close(uint32_t connection, bool at_once, std::function<void()> ended) {
  const int socket = static_cast<int>(connection);
  const auto found = sockets_.find(socket);
  if (found == sockets_.end() || found->second.is_shut) return;
  if (at_once) {
    ++found->second.epoch;
    found->second.is_reset = true;
    return ended();
  }
  const uint32_t epoch = found->second.epoch;
  agenda_.emplace(std::max(found->second.last_arrival, now_), [this, socket, epoch, ended] {
    const auto to = sockets_.find(socket);
    if (to == sockets_.end() || to->second.epoch != epoch) return;
    to->second.has_ended = true;
    ended();
  });
}

}  // namespace sluicegate::simulation
