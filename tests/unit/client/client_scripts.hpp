// Shared by the tests of the client: a server for any number of connections, the frames that it
// reads and writes, a client that reconnects fast, and events to wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_server.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate::test {

using namespace std::chrono_literals;

inline constexpr uint8_t approved = 1, denied = 2, queued = 3, withdrawn = 11, draining = 12;
inline constexpr int connections_max = 100;

// A time-out that passes after the request was sent, also on a slow machine.
inline constexpr std::chrono::milliseconds sent_before{500};

// A server that sends Welcome and then runs the script, for any number of connections.
inline FakeServer serve(FakeServer::Script script) {
  return FakeServer{FakeServer::welcoming(std::move(script)), connections_max};
}

inline std::string address_of(const FakeServer& server) {
  return "127.0.0.1:" + std::to_string(server.port());
}

// Options of a client that reconnects fast.
inline ClientOptions quick(ClientOptions options = {}) {
  options.backoff_first = 1ms;
  options.backoff_longest = 5ms;
  return options;
}

// A client that is connected: the script answers its Ping first.
inline Client connected(const FakeServer& server, ClientOptions options = {}) {
  Client client{address_of(server), quick(std::move(options))};
  client.ping();
  return client;
}

// A copy of a request, which outlives its frame.
struct Question {
  uint64_t id = 0;
  schema::ClientFrame::Which kind{};
  std::vector<std::string> keys;
  std::vector<uint32_t> numbers;  // handles, or the entries of a Withdraw
  std::vector<uint32_t> costs;
  std::vector<uint64_t> windows_ms;
  uint64_t target = 0;
  uint32_t wait_limit_ms = 0;
};

template <typename Keyed>
void read_keys(Keyed keyed, Question& question) {
  const auto bytes = keyed.getKeys().asChars();
  size_t at = 0;
  for (const uint16_t size : keyed.getKeySizes()) {
    question.keys.emplace_back(bytes.begin() + at, size);
    at += size;
  }
}

inline Question question_of(schema::ClientFrame::Reader frame) {
  Question question{.id = frame.getId(), .kind = frame.which()};
  if (frame.isAcquire()) {
    read_keys(frame.getAcquire(), question);
    for (const uint32_t cost : frame.getAcquire().getCosts()) question.costs.push_back(cost);
    for (const uint64_t ms : frame.getAcquire().getWindowMs()) question.windows_ms.push_back(ms);
    question.wait_limit_ms = frame.getAcquire().getWaitLimitMs();
  } else if (frame.isRelease()) {
    read_keys(frame.getRelease(), question);
    for (const uint32_t cost : frame.getRelease().getCosts()) question.costs.push_back(cost);
  } else if (frame.isIntern()) {
    read_keys(frame.getIntern(), question);
  } else if (frame.isInspect()) {
    const auto key = frame.getInspect().getKey().asChars();
    question.keys.emplace_back(key.begin(), key.size());
  } else if (frame.isAcquireByHandle()) {
    for (const uint32_t handle : frame.getAcquireByHandle().getHandles()) {
      question.numbers.push_back(handle);
    }
    for (const uint64_t ms : frame.getAcquireByHandle().getWindowMs()) {
      question.windows_ms.push_back(ms);
    }
  } else if (frame.isWithdraw()) {
    question.target = frame.getWithdraw().getTarget();
    for (const uint32_t entry : frame.getWithdraw().getEntries()) question.numbers.push_back(entry);
  }
  return question;
}

inline Question read(Peer& peer) {
  return question_of(peer.read());
}

inline std::string done(uint64_t id) {
  return test::answer(id, [](auto frame) { frame.setDone(); });
}

inline std::string pong(uint64_t id) {
  return test::answer(id, [](auto frame) { frame.setPong(); });
}

inline std::string verdict_for_all(const Question& question, uint8_t verdict) {
  const size_t count = question.keys.size() + question.numbers.size();
  return test::verdicts(question.id, static_cast<unsigned>(count), {verdict});
}

// Handles for the keys in their order, from `first` on.
inline std::string interned_from(const Question& question, uint32_t first) {
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < question.keys.size(); ++i) {
    numbers.push_back(first + static_cast<uint32_t>(i));
  }
  return test::interned(question.id, numbers, {approved});
}

// Approves every request until the client closes the connection.
inline void approve_all(Peer& peer) {
  for (;;) {
    const Question question = read(peer);
    if (question.kind == schema::ClientFrame::PING) {
      peer.write(pong(question.id));
    } else if (question.kind == schema::ClientFrame::RELEASE) {
      peer.write(done(question.id));
    } else {
      peer.write(verdict_for_all(question, approved));
    }
  }
}

inline void answer_nothing(Peer& peer) {
  for (;;) read(peer);
}

// Collects the outcomes of callbacks.
class Outcomes {
 public:
  Client::Callback next() {
    return [this](const Outcome& outcome) {
      const std::lock_guard lock{mutex_};
      all_.push_back(outcome);
      changed_.notify_all();
    };
  }
  std::vector<Outcome> wait_for(size_t count) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, 60s, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Outcome> all_;
};

// An event that one thread waits for and another triggers.
class Event {
 public:
  void happen() { promise_.set_value(); }
  bool wait() { return future_.wait_for(60s) == std::future_status::ready; }

 private:
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

inline void wait_until_pending(const Client& client, size_t count) {
  while (client.pending() != count) std::this_thread::sleep_for(1ms);
}

}  // namespace sluicegate::test
