// Goal: over three real nodes the C++ client's limits and quotas are exact, nothing is forwarded
//       once it has found the owners, and an owner that it cannot reach, or that is gone, costs no
//       other call.
// Method: starts and kills the binary that SLUICEGATE names; a platform of its own keeps the client
//         from a node that the other nodes reach, as a translated address would.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients/cpp/src/client_impl.hpp"
#include "clients/cpp/src/platform.hpp"
#include "server_program.hpp"
#include "sluicegate/address.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using sluice::proto::key_node;
using test::Server;

constexpr uint32_t nodes_count = 3;
constexpr int limit = 50;

ClientOptions quick(ClientOptions options = {}) {
  options.backoff_first = 1ms;
  options.backoff_longest = 20ms;
  return options;
}

// The text of the answer to GET /metrics.
std::string metrics_of(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string question = "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(send(fd, question.data(), question.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(question.size()));
  std::string text;
  std::array<char, 4'096> some;
  for (ssize_t got = 0; (got = recv(fd, some.data(), some.size(), 0)) > 0;) {
    text.append(some.data(), static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

// The sum of a metric's lines.
uint64_t sum_of(const std::string& text, const std::string& metric) {
  uint64_t sum = 0;
  for (size_t at = text.find("\n" + metric + "{"); at != text.npos;
       at = text.find("\n" + metric + "{", at + 1)) {
    const size_t number = text.find("} ", at) + 2;
    sum += std::stoull(text.substr(number, text.find('\n', number) - number));
  }
  return sum;
}

// Nodes that share a secret forward calls about quotas.
std::string secret_file() {
  const std::string path = ::testing::TempDir() + "cpp_nodes_secret." + std::to_string(getpid());
  if (access(path.c_str(), F_OK) != 0) {
    std::ofstream{path} << "correct horse battery staple\n";
    EXPECT_EQ(chmod(path.c_str(), S_IRUSR), 0);
  }
  return path;
}

// Refuses connections to one port.
class KeptApart final : public SystemPlatform {
 public:
  std::atomic<uint16_t> refused_port{0};

  int connect(const std::string& host, uint16_t port, std::chrono::milliseconds timeout,
              const std::atomic<bool>* stop) override {
    if (port == refused_port) throw ConnectionLost("this port cannot be reached from here");
    return SystemPlatform::connect(host, port, timeout, stop);
  }
};

class CppNodes : public ::testing::TestWithParam<uint32_t> {
 protected:
  CppNodes() {
    for (uint32_t node = 0; node < nodes_count; ++node) rest_ports_.push_back(test::free_port());
    std::string urls;
    for (const uint16_t port : rest_ports_) {
      urls += (urls.empty() ? "http://127.0.0.1:" : ",http://127.0.0.1:") + std::to_string(port);
    }
    for (const uint16_t port : rest_ports_) {
      nodes_.push_back(std::make_unique<Server>(std::vector<std::string>{
          "--port", std::to_string(port), "--instance-urls", urls, "--shards",
          std::to_string(GetParam()), "--window-millis", "3600000", "--max-requests",
          std::to_string(limit), "--peer-secret-file", secret_file()}));
    }
    for (int i = 0; i < 120; ++i) texts_.push_back("key:" + std::to_string(i));
    keys_.assign(texts_.begin(), texts_.end());
  }

  size_t all_connections() const { return size_t{nodes_count} * GetParam(); }
  uint64_t forwarded() const {
    uint64_t sum = 0;
    for (const uint16_t port : rest_ports_) {
      sum += sum_of(metrics_of(port), "sluicegate_node_forwarded_total");
    }
    return sum;
  }
  // Between the nodes: each worker has one to each worker of every other node.
  void wait_for_links() const {
    const uint64_t wanted = uint64_t{nodes_count - 1} * GetParam() * GetParam();
    for (const uint16_t port : rest_ports_) {
      const auto links = [&] { return sum_of(metrics_of(port), "sluicegate_node_links"); };
      for (int i = 0; i < 6'000 && links() != wanted; ++i) std::this_thread::sleep_for(10ms);
      ASSERT_EQ(links(), wanted);
    }
  }
  // One that knows the first node's address, and soon tries an owner out of reach again.
  Client client_over(Platform& platform) const {
    ClientOptions options = quick();
    options.owner_retry = 50ms;
    return Client{std::make_unique<ClientImpl>(std::vector{parse_address(nodes_[0]->address())},
                                               options, platform)};
  }
  std::vector<std::string_view> keys_of(uint32_t node) const {
    std::vector<std::string_view> keys;
    std::ranges::copy_if(keys_, std::back_inserter(keys),
                         [&](std::string_view key) { return key_node(key, nodes_count) == node; });
    return keys;
  }

  std::vector<uint16_t> rest_ports_;
  std::vector<std::unique_ptr<Server>> nodes_;
  std::vector<std::string> texts_;
  std::vector<std::string_view> keys_;
};

// Asks, because a client reads what its servers report with the answers to its calls.
void wait_for_connections(Client& client, size_t count) {
  for (int i = 0; i < 6'000 && client.connections() != count; ++i) {
    test::ping(client);
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_EQ(client.connections(), count);
}

TEST_P(CppNodes, limits_are_exact_and_owners_are_asked_directly) {
  Client client{std::vector{nodes_[1]->address(), nodes_[2]->address()}, quick()};
  wait_for_connections(client, all_connections());
  const uint64_t forwarded_before = forwarded();
  std::atomic<int> approved{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < limit / 2; ++i) {
        if (thread % 2 == 0) {
          const BatchOutcome outcome = client.acquire_batch(keys_);
          approved += static_cast<int>(std::ranges::count(outcome.verdicts, Verdict::approved));
          continue;
        }
        for (const std::string_view key : keys_) {
          approved += client.acquire(key).approved() ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(approved, limit * static_cast<int>(keys_.size()));
  const auto handles = client.intern(keys_);
  for (const Verdict verdict : client.acquire_batch(handles).verdicts) {
    EXPECT_EQ(verdict, Verdict::denied);
  }
  EXPECT_EQ(forwarded(), forwarded_before);
}

TEST_P(CppNodes, an_owner_that_was_killed_is_asked_directly_again_when_it_is_back) {
  Client client{std::vector{nodes_[0]->address()}, quick({.on_failure = OnFailure::closed})};
  wait_for_connections(client, all_connections());
  const auto lost = keys_of(2);
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> failed{0};
  std::thread others{[&] {
    while (!is_over) {
      for (const uint32_t node : {0U, 1U}) {
        for (const std::string_view key : keys_of(node)) {
          failed += client.acquire(key, {.cost = 0}).failure == Failure::none ? 0 : 1;
        }
      }
    }
  }};
  nodes_[2]->end(SIGKILL);
  // The other nodes answer for it.
  for (int i = 0; i < 6'000; ++i) {
    const Outcome outcome = client.acquire(lost.front());
    if (outcome.verdict == Verdict::owner_unreachable) break;
    std::this_thread::sleep_for(10ms);
  }
  const BatchOutcome meanwhile = client.acquire_batch(lost);
  EXPECT_EQ(meanwhile.failed, 0u);
  EXPECT_EQ(std::ranges::count(meanwhile.verdicts, Verdict::owner_unreachable),
            static_cast<ssize_t>(lost.size()));
  nodes_[2]->start();
  wait_for_connections(client, all_connections());
  const uint64_t forwarded_before = forwarded();
  EXPECT_TRUE(client.acquire_batch(lost).all_approved());
  EXPECT_EQ(forwarded(), forwarded_before);
  is_over = true;
  others.join();
  EXPECT_EQ(failed, 0u);
}

TEST_P(CppNodes, an_owner_out_of_reach_is_reached_through_another_node) {
  KeptApart platform;
  platform.refused_port = parse_address(nodes_[2]->address()).port;
  Client client = client_over(platform);
  wait_for_connections(client, all_connections() - GetParam());
  wait_for_links();
  const auto apart = keys_of(2);
  for (int i = 0; i < limit / 2; ++i) EXPECT_TRUE(client.acquire_batch(apart).all_approved());
  EXPECT_GE(forwarded(), apart.size() * limit / 2);
  const auto handles = client.intern(apart);
  EXPECT_TRUE(client.acquire_batch(handles, {.cost = 0}).all_approved());
  platform.refused_port = 0;
  wait_for_connections(client, all_connections());
  const uint64_t forwarded_before = forwarded();
  EXPECT_TRUE(client.acquire_batch(handles, {.cost = 0}).all_approved());
  for (int i = 0; i < limit / 2; ++i) EXPECT_TRUE(client.acquire_batch(apart).all_approved());
  for (const Verdict verdict : client.acquire_batch(apart).verdicts) {
    EXPECT_EQ(verdict, Verdict::denied);
  }
  EXPECT_EQ(forwarded(), forwarded_before);
}

// --------------------------------------------------------------------------------------- quotas

Quota requests_an_hour(uint64_t amount) {
  return {.limits = {{.name = "requests",
                      .metric = Metric::requests,
                      .kind = LimitKind::fixed,
                      .amount = amount,
                      .period_ms = 3'600'000}}};
}

void wait_until_open(Client& client, std::string_view subject, uint32_t count) {
  const auto open = [&] { return client.usage(subject).open_reservations; };
  for (int i = 0; i < 6'000 && open() != count; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(open(), count);
}

TEST_P(CppNodes, quotas_are_exact_and_owners_are_asked_directly) {
  constexpr int amount = 10;
  Client client{std::vector{nodes_[1]->address(), nodes_[2]->address()}, quick()};
  wait_for_connections(client, all_connections());
  const uint64_t forwarded_before = forwarded();
  for (const std::string_view subject : keys_) {
    ASSERT_EQ(client.put_quota(subject, requests_an_hour(amount)), QuotaCode::ok);
  }
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < amount / 2; ++i) {
        for (const std::string_view subject : keys_) {
          if (thread % 2 == 0) {
            admitted += client.consume(subject, {}) ? 1 : 0;
          } else if (Reservation call = client.reserve(subject)) {
            ++admitted;
            EXPECT_TRUE(call.settle({}));
          }
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(admitted, amount * static_cast<int>(keys_.size()));
  std::vector<ReserveEntry> entries;
  for (const std::string_view subject : keys_) {
    EXPECT_EQ(client.usage(subject).limits.at(0).used, uint64_t{amount});
    entries.push_back({.subject = subject});
  }
  for (const QuotaCode code : client.reserve_batch(entries).codes) {
    EXPECT_EQ(code, QuotaCode::requests_exceeded);
  }
  EXPECT_EQ(forwarded(), forwarded_before);
}

TEST_P(CppNodes, quotas_of_an_owner_out_of_reach_are_asked_through_another_node) {
  KeptApart platform;
  platform.refused_port = parse_address(nodes_[2]->address()).port;
  Client client = client_over(platform);
  wait_for_connections(client, all_connections() - GetParam());
  wait_for_links();
  const auto apart = keys_of(2);
  std::vector<ReserveEntry> entries;
  for (const std::string_view subject : apart) {
    ASSERT_EQ(client.put_quota(subject, requests_an_hour(1)), QuotaCode::ok);
    entries.push_back({.subject = subject});
  }
  const QuotaBatchOutcome reserved = client.reserve_batch(entries);
  EXPECT_EQ(reserved.codes, std::vector<QuotaCode>(apart.size(), QuotaCode::ok));
  EXPECT_GE(forwarded(), 2 * apart.size());
  platform.refused_port = 0;
  wait_for_connections(client, all_connections());
  const uint64_t forwarded_before = forwarded();
  std::vector<SettleEntry> settled;
  for (const uint64_t reservation : reserved.reservations) settled.push_back({reservation});
  EXPECT_EQ(client.settle_batch(settled).codes, reserved.codes);
  for (const std::string_view subject : apart) {
    EXPECT_EQ(client.reserve(subject).outcome().code, QuotaCode::requests_exceeded);
  }
  EXPECT_EQ(forwarded(), forwarded_before);
}

// Other nodes answer for the node that was killed, and cannot take its settles.
TEST_P(CppNodes, settles_wait_for_the_node_that_has_their_reservations) {
  Client client{std::vector{nodes_[0]->address()}, quick({.on_failure = OnFailure::closed})};
  wait_for_connections(client, all_connections());
  std::vector<Reservation> calls;
  for (const std::string_view subject : keys_of(2)) calls.push_back(client.reserve(subject));
  nodes_[2]->end(SIGKILL);
  const uint64_t count = calls.size();
  EXPECT_TRUE(calls.front().settle().kept);
  for (Reservation& call : calls) call.settle_nowait();
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(client.settles(), (SettleCounts{.kept = count}));
  nodes_[2]->start();
  while (client.settles().kept > 0) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(client.settles(), (SettleCounts{.recorded = count}));
}

TEST_P(CppNodes, connection_bound_reservations_end_with_the_client) {
  Client observer{nodes_[2]->address(), quick()};
  test::ping(observer);
  const std::string_view subject = keys_of(2).front();
  ASSERT_EQ(observer.put_quota(subject, requests_an_hour(2)), QuotaCode::ok);
  KeptApart platform;
  for (const bool is_apart : {false, true}) {
    if (is_apart) platform.refused_port = parse_address(nodes_[2]->address()).port;
    Client client = client_over(platform);
    wait_for_connections(client, all_connections() - (is_apart ? GetParam() : 0));
    wait_for_links();
    Reservation call = client.reserve(subject, {.connection_bound = true});
    ASSERT_TRUE(call);
    (void)call.detach();
    wait_until_open(observer, subject, 1);
    client.close();
    wait_until_open(observer, subject, 0);
  }
}

// --------------------------------------------------------------------------------------- losses

TEST_P(CppNodes, each_call_completes_once_while_nodes_are_killed) {
  for (const bool requeue : {false, true}) {
    ClientOptions options = quick({.on_failure = OnFailure::closed, .requeue = requeue});
    options.owner_retry = 50ms;
    Client client{std::vector{nodes_[0]->address(), nodes_[1]->address()}, options};
    wait_for_connections(client, all_connections());
    const auto handles = client.intern(keys_);
    std::atomic<bool> is_over{false};
    std::atomic<uint64_t> called{0};
    std::atomic<uint64_t> completed{0};
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
      for (size_t i = 0; !is_over; ++i) (void)client.acquire(keys_[i % keys_.size()], {.cost = 0});
    });
    threads.emplace_back([&] {
      for (size_t i = 0; !is_over; ++i) {
        ++called;
        client.acquire_async(keys_[i % keys_.size()], [&](const Outcome&) { ++completed; },
                             {.cost = 0});
        if (i % 100 == 0) std::this_thread::sleep_for(1ms);
      }
    });
    threads.emplace_back([&] {
      for (size_t i = 0; !is_over; ++i) {
        const std::string_view subject = keys_[i % keys_.size()];
        const Reservation cancelled = client.reserve(subject);
        ++called;
        client.record_async(subject, {}, [&](const QuotaOutcome&) { ++completed; });
        if (i % 100 == 0) std::this_thread::sleep_for(1ms);
      }
    });
    threads.emplace_back([&] {
      while (!is_over) {
        (void)client.acquire_batch(keys_, {.cost = 0});
        (void)client.acquire_batch(handles, {.cost = 0});
      }
    });
    for (uint32_t kill = 0; kill < 6; ++kill) {
      Server& node = *nodes_[kill % nodes_count];
      node.end(SIGKILL);
      std::this_thread::sleep_for(100ms);
      node.start();
      std::this_thread::sleep_for(100ms);
    }
    is_over = true;
    for (std::thread& each : threads) each.join();
    // A call that is complete, or goes on to another node, stops being pending a moment before.
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    const auto is_any_left = [&] { return client.pending() > 0 || completed < called; };
    while (is_any_left() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(client.pending(), 0u);
    EXPECT_EQ(completed, called);
    wait_for_connections(client, all_connections());
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, CppNodes, ::testing::Values(1U, 2U));

}  // namespace
}  // namespace sluicegate
