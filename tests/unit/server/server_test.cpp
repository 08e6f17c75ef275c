// Goal: the server starts, answers, drains and stops, with its worker on a thread of its own; with
//       a state it goes on where an earlier start has ended.
// Method: the real Server in this process, both kernel back ends, a client on a loopback socket.
//         The epoll half also runs under ThreadSanitizer.
#include "server/server.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "config/cpus.hpp"
#include "io/file_descriptor.hpp"
#include "server/return_poll.hpp"
#include "server/state_meta.hpp"
#include "server/worker_options.hpp"
#include "sluicegate/connection.hpp"
#include "sluicegate/frames.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

io::FileDescriptor connect_to(uint16_t port) {
  io::FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

void send_text(int fd, const std::string& text) {
  ASSERT_EQ(::send(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

// Receives until the peer ends, or has sent `enough` bytes.
std::string receive(int fd, size_t enough = SIZE_MAX) {
  std::string text;
  char piece[4'096];
  while (text.size() < enough) {
    const ssize_t bytes = ::recv(fd, piece, sizeof piece, 0);
    // The kernel's work for a ring of this process interrupts a receive that has a time limit.
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(piece, static_cast<size_t>(bytes));
  }
  return text;
}

class ServerTest : public ::testing::TestWithParam<base::IoBackend> {
 protected:
  config::Config config() const {
    config::Config config;
    config.bind = "127.0.0.1";
    config.port = 0;
    config.native_port = 0;
    config.io = GetParam();
    config.max_keys = 1'000;
    config.max_connections = 16;
    return config;
  }
};

TEST_P(ServerTest, answers_from_its_own_thread) {
  Server server(config());
  const StartReport report = server.start();
  EXPECT_NE(report.port, 0);
  EXPECT_NE(report.native_port, report.port);
  const io::FileDescriptor client = connect_to(report.port);
  send_text(client.get(), "GET /rate/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(receive(client.get()).substr(0, 15), "HTTP/1.1 200 OK");
}

// The CPUs that the thread with this name may run on, as the kernel writes them; empty: no thread.
std::string cpus_of_thread(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::getline(std::ifstream(task.path() / "comm"), line);
    if (line != name) continue;
    std::ifstream status(task.path() / "status");
    while (std::getline(status, line)) {
      constexpr std::string_view title = "Cpus_allowed_list:\t";
      if (line.starts_with(title)) return line.substr(title.size());
    }
  }
  return "";
}

TEST_P(ServerTest, names_its_worker_and_pins_it) {
  Server server(config());
  EXPECT_TRUE(server.start().pinned);
  EXPECT_EQ(cpus_of_thread("shard-0"), std::to_string(config::affinity_cpus().front()));
}

TEST_P(ServerTest, does_not_pin_its_worker_when_configured_so) {
  config::Config wanted = config();
  wanted.pin = false;
  Server server(wanted);
  EXPECT_FALSE(server.start().pinned);
  EXPECT_EQ(cpus_of_thread("shard-0"), cpus_of_thread("server_test"));
}

TEST_P(ServerTest, drains_waiters_with_an_answer) {
  config::Config wanted = config();
  wanted.max_requests = 1;
  wanted.window_ms = 3'600'000;
  Server server(wanted);
  const StartReport report = server.start();
  io::FileDescriptor client = connect_to(report.port);
  send_text(client.get(), "GET /rate/a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(receive(client.get(), 1).substr(0, 15), "HTTP/1.1 200 OK");
  send_text(client.get(), "GET /rate/a?canWait=true HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_FALSE(server.wait_drained(milliseconds(50)));
  server.drain();
  EXPECT_EQ(receive(client.get()).substr(0, 12), "HTTP/1.1 503");
  client.reset();  // the server would wait two seconds for it
  EXPECT_TRUE(server.wait_drained(milliseconds(20'000)));
  EXPECT_EQ(server.force_closed_count(), 0U);
}

// Requests for keys of both shards over connections of both; some wait, some connections end early.
TEST_P(ServerTest, two_shards_serve_many_clients) {
  config::Config wanted = config();
  wanted.shards = 2;
  wanted.pin = false;
  wanted.max_requests = 3;
  wanted.window_ms = 20;
  Server server(wanted);
  const StartReport report = server.start();
  std::vector<std::thread> clients;
  std::atomic<int> answers = 0;
  for (int number = 0; number < 6; ++number) {
    clients.emplace_back([&, number] {
      const io::FileDescriptor client = connect_to(report.port);
      for (int round = 0; round < 60; ++round) {
        const std::string key = "key" + std::to_string((number * 7 + round) % 10);
        const std::string query = round % 3 == 0 ? "?canWait=true" : "";
        send_text(client.get(), "GET /rate/" + key + query + " HTTP/1.1\r\nHost: x\r\n\r\n");
        if (round == 59 && number % 2 == 0) return;  // leaves without its answer
        EXPECT_EQ(receive(client.get(), 1).substr(0, 9), "HTTP/1.1 ");
        ++answers;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answers, 6 * 60 - 3);
  server.drain();
  EXPECT_TRUE(server.wait_drained(milliseconds(20'000)));
  EXPECT_EQ(server.force_closed_count(), 0U);
}

std::vector<std::string> keys_of_both_shards() {
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back("native" + std::to_string(i));
  return keys;
}

std::string text_of(const std::vector<uint64_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)};
}

// Consecutive frames as words; decoded answers point into them.
std::vector<uint64_t> words_of(const std::string& text) {
  std::vector<uint64_t> words(text.size() / sizeof(uint64_t));
  std::memcpy(words.data(), text.data(), words.size() * sizeof(uint64_t));
  return words;
}

std::vector<sluicegate::Answer> answers_in(std::span<const uint64_t> words) {
  std::vector<sluicegate::Answer> answers;
  while (const auto size = sluicegate::frame_words(words)) {
    if (*size > words.size()) break;
    answers.push_back(sluicegate::decode(words.first(*size)));
    words = words.subspan(*size);
  }
  return answers;
}

// Otherwise the other shard may need the core on which a worker polls for its answer.
TEST(WorkerOptions, workers_poll_for_messages_only_with_a_core_for_each_shard) {
  config::Config config;
  config.shards = 2;
  config.cores_suffice = false;
  EXPECT_EQ(worker_options(config, {}, {}).return_poll_ns, 0);
  config.cores_suffice = true;
  EXPECT_EQ(worker_options(config, {}, {}).return_poll_ns, return_poll_ns);
}

// Connections that ask for a shard, with everything else behind their Hello in the same segment.
TEST_P(ServerTest, two_shards_serve_connections_that_move_with_frames_behind_their_hello) {
  config::Config wanted = config();
  wanted.shards = 2;
  wanted.pin = false;
  wanted.cores_suffice = true;  // often both workers poll their mailboxes at the same time
  wanted.max_requests = 1'000'000;
  wanted.window_ms = 3'600'000;
  Server server(wanted);
  const StartReport report = server.start();
  const std::vector<std::string> names = keys_of_both_shards();
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<std::thread> clients;
  std::atomic<size_t> approved = 0;
  for (uint32_t number = 0; number < 4; ++number) {
    clients.emplace_back([&, number] {
      for (uint32_t round = 0; round < 40; ++round) {
        std::vector<uint64_t> frames;
        sluicegate::encode(
            0, sluicegate::Hello{.client_name = "test", .wanted_shard = (number + round) % 2},
            frames);
        sluicegate::encode(1, sluicegate::Acquire{.keys = keys}, frames);
        sluicegate::encode(2, sluicegate::Inspect{}, frames);
        sluicegate::encode(3, sluicegate::Release{.keys = std::span(keys).first(5)}, frames);
        const io::FileDescriptor client = connect_to(report.native_port);
        send_text(client.get(), text_of(frames));
        ::shutdown(client.get(), SHUT_WR);
        const auto words = words_of(receive(client.get()));
        const auto answers = answers_in(words);
        ASSERT_EQ(answers.size(), 4U);
        EXPECT_EQ(std::get<sluicegate::Welcome>(answers[0]).shard, (number + round) % 2);
        for (const auto& answer : answers) {
          if (const auto* verdicts = std::get_if<sluicegate::Verdicts>(&answer)) {
            for (size_t i = 0; i < verdicts->verdicts.size(); ++i) {
              if (verdicts->verdicts[i] == sluicegate::Verdict::approved) ++approved;
            }
          }
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(approved, 4 * 40 * keys.size());
  // Every request was counted for the key that it named, and for no other.
  std::optional<sluicegate::Connection> connection{std::in_place, "127.0.0.1", report.native_port,
                                                   sluicegate::ConnectOptions{}};
  for (const std::string_view key : keys) {
    const auto state = connection->inspect(key);
    ASSERT_TRUE(state.has_value()) << key;
    const uint32_t released = key < "native5" && key.size() == 7 ? 1 : 0;
    EXPECT_EQ(state->approved, 4 * 40 * (1 - released)) << key;
  }
  connection.reset();  // the server would wait two seconds for it
  server.drain();
  EXPECT_TRUE(server.wait_drained(milliseconds(20'000)));
}

// Batches over both shards, with entries that wait, are withdrawn, or lose their client, while
// other connections inspect all keys.
TEST_P(ServerTest, two_shards_serve_batches_that_wait) {
  config::Config wanted = config();
  wanted.shards = 2;
  wanted.pin = false;
  wanted.max_requests = 2;
  wanted.window_ms = 20;
  Server server(wanted);
  const StartReport report = server.start();
  const std::vector<std::string> names = keys_of_both_shards();
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<std::thread> clients;
  for (uint32_t number = 0; number < 4; ++number) {
    clients.emplace_back([&, number] {
      for (uint32_t round = 0; round < 15; ++round) {
        sluicegate::Connection connection{"127.0.0.1", report.native_port};
        const uint64_t id = connection.send(sluicegate::Acquire{
            .keys = keys, .all_may_wait = true, .wait_limit_ms = round % 2 == 0 ? 30U : 0U});
        connection.flush();
        if (round % 5 == number) continue;  // the connection ends, with waiting entries
        if (round % 3 == 0) connection.withdraw({.target = id});
        connection.ping();
        EXPECT_EQ(connection.acquire(keys).size(), keys.size());
      }
    });
  }
  clients.emplace_back([&] {
    for (int round = 0; round < 30; ++round) {
      for (const char* path : {"/metrics", "/debug", "/debug/native1"}) {
        const io::FileDescriptor client = connect_to(report.port);
        send_text(client.get(),
                  std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        EXPECT_EQ(receive(client.get()).substr(0, 9), "HTTP/1.1 ");
      }
    }
  });
  for (std::thread& client : clients) client.join();
  server.drain();
  EXPECT_TRUE(server.wait_drained(milliseconds(20'000)));
  EXPECT_EQ(server.force_closed_count(), 0U);
}

// Connections to both shards share one limit per key, by key and by handle; connections begin and
// end. One that holds no other shard's handle is answered without the keys' text.
TEST_P(ServerTest, two_shards_serve_keys_by_number) {
  config::Config wanted = config();
  wanted.shards = 2;
  wanted.pin = false;
  wanted.max_requests = 50;
  wanted.window_ms = 3'600'000;
  Server server(wanted);
  const StartReport report = server.start();
  const std::vector<std::string> names = keys_of_both_shards();
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::atomic<uint32_t> approved = 0;
  const auto count = [&](const std::vector<sluicegate::Verdict>& verdicts) {
    for (const sluicegate::Verdict verdict : verdicts) {
      EXPECT_TRUE(verdict == sluicegate::Verdict::approved ||
                  verdict == sluicegate::Verdict::denied);
      approved += verdict == sluicegate::Verdict::approved ? 1 : 0;
    }
  };
  std::vector<std::thread> clients;
  for (uint32_t number = 0; number < 4; ++number) {
    clients.emplace_back([&, number] {
      for (uint32_t round = 0; round < 10; ++round) {
        sluicegate::Connection connection{
            "127.0.0.1", report.native_port, {.wanted_shard = (number + round) % 2}};
        std::vector<std::string_view> own = keys;
        std::erase_if(own, [&](std::string_view key) {
          return connection.owner_shard(key) != connection.welcome().shard;
        });
        count(connection.acquire(connection.intern(own)));
        const std::vector<uint32_t> handles = connection.intern(keys);
        count(connection.acquire(handles));
        count(connection.acquire(keys));
        if (round % 3 == 0) connection.forget(std::span(handles).first(1 + number * 10));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(approved, 50 * keys.size());
  server.drain();
  EXPECT_TRUE(server.wait_drained(milliseconds(20'000)));
  EXPECT_EQ(server.force_closed_count(), 0U);
}

// While both shards get requests for keys that they have to match to the new rules.
TEST_P(ServerTest, new_rules_reach_every_shard) {
  const std::string path =
      testing::TempDir() + "/server_test_" + std::to_string(getpid()) + ".json";
  const auto write_limit = [&](int limit) {
    std::ofstream(path) << R"({"keys": [{"key_pattern": "", "key_pattern_is_regex": true,
                                         "max_requests_per_window": )"
                        << limit << "}]}";
  };
  write_limit(1'000);
  config::Config wanted = config();
  wanted.shards = 2;
  wanted.pin = false;
  wanted.config_file = path;
  Server server(wanted);
  sluicegate::Connection connection{"127.0.0.1", server.start().native_port};
  const std::vector<std::string> names = keys_of_both_shards();
  const std::vector<std::string_view> keys(names.begin(), names.end());
  for (const int limit : {2'000, 3'000, 4'000}) {
    write_limit(limit);
    const auto all_have_it = [&] {
      (void)connection.acquire(keys);
      return std::ranges::all_of(keys, [&](std::string_view key) {
        const auto state = connection.inspect(key);
        return state && state->max_requests == static_cast<uint32_t>(limit);
      });
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!all_have_it() && std::chrono::steady_clock::now() < deadline) {
    }
    EXPECT_TRUE(all_have_it()) << limit;
  }
  std::filesystem::remove(path);
}

// ------------------------------------------------------------------------- a state that survives

class ServerWithState : public ServerTest {
 protected:
  config::Config config() const {
    config::Config config = ServerTest::config();
    config.shards = 2;
    config.pin = false;
    config.state = folder_.file("state");
    config.state_sync_ms = 10;
    config.max_connections = 500;
    return config;
  }
  // What one request is answered.
  static std::string answer(uint16_t port, const std::string& line, const std::string& body = "") {
    const io::FileDescriptor client = connect_to(port);
    send_text(client.get(), line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body);
    return receive(client.get());
  }
  static std::string put(uint16_t port, const std::string& name) {
    return answer(port, "PUT /v1/subjects/" + name,
                  R"({"limits": [{"name": "rpd", "metric": "requests", "amount": 100,)"
                  R"( "period_ms": 86400000, "kind": "anchored_day"}]})");
  }
  static void record(uint16_t port, const std::string& name) {
    const std::string text = answer(port, "POST /v1/record", R"({"subjects": [")" + name + "\"]}");
    EXPECT_EQ(text.substr(0, 12), "HTTP/1.1 200") << text;
  }
  static bool has_used(uint16_t port, const std::string& name, int used) {
    const std::string text = answer(port, "GET /v1/subjects/" + name);
    return text.find("\"used\":" + std::to_string(used)) != std::string::npos;
  }
  static std::optional<store::StateWriter::End> end(Server& server) {
    server.drain();
    EXPECT_TRUE(server.wait_drained(milliseconds(20'000)));
    return server.close_state(milliseconds(20'000));
  }

  test::TemporaryFolder folder_;
};

TEST_P(ServerWithState, the_next_start_goes_on_with_quotas_and_usage) {
  {
    Server server(config());
    const uint16_t port = server.start().port;
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      EXPECT_EQ(put(port, name).substr(0, 12), "HTTP/1.1 200");
      record(port, name);
    }
    EXPECT_EQ(answer(port, "DELETE /v1/subjects/e").substr(0, 12), "HTTP/1.1 204");
    EXPECT_EQ(end(server), store::StateWriter::End::clean);
  }
  for (int start = 2; start < 4; ++start) {
    Server server(config());
    const uint16_t port = server.start().port;
    for (const char* name : {"a", "b", "c", "d"}) {
      EXPECT_TRUE(has_used(port, name, start - 1)) << name;
      record(port, name);
    }
    EXPECT_EQ(answer(port, "GET /v1/subjects/e").substr(0, 12), "HTTP/1.1 404");
    EXPECT_EQ(end(server), store::StateWriter::End::clean);
  }
}

// It is destroyed without more ado, as after an exception.
TEST_P(ServerWithState, a_put_that_was_answered_outlives_the_server) {
  {
    Server server(config());
    EXPECT_EQ(put(server.start().port, "a").substr(0, 12), "HTTP/1.1 200");
  }
  Server server(config());
  EXPECT_TRUE(has_used(server.start().port, "a", 0));
}

// Clients put quotas, record and end their connections on both shards, while others read.
TEST_P(ServerWithState, two_shards_keep_what_many_clients_change) {
  constexpr int clients_count = 4;
  constexpr int rounds = 25;
  {
    Server server(config());
    const uint16_t port = server.start().port;
    std::vector<std::thread> clients;
    for (int number = 0; number < clients_count; ++number) {
      clients.emplace_back([port, number] {
        const std::string name = "s" + std::to_string(number);
        EXPECT_EQ(put(port, name).substr(0, 12), "HTTP/1.1 200");
        for (int round = 0; round < rounds; ++round) {
          record(port, name);
          if (round % 8 == 0) answer(port, "GET /metrics");
          if (round % 8 == 4) {
            const io::FileDescriptor leaves = connect_to(port);
            send_text(leaves.get(), "DELETE /v1/subjects/other HTTP/1.1\r\nHost: x\r\n\r\n");
          }
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(end(server), store::StateWriter::End::clean);
  }
  config::Config wanted = config();
  wanted.shards = 1;
  Server server(wanted);
  const uint16_t port = server.start().port;
  for (int number = 0; number < clients_count; ++number) {
    EXPECT_TRUE(has_used(port, "s" + std::to_string(number), rounds)) << number;
  }
}

TEST_P(ServerWithState, does_not_start_on_a_file_that_is_none) {
  std::ofstream(config().state) << "no state at all, but longer than the header of one would be";
  Server server(config());
  try {
    server.start();
    FAIL() << "it has started";
  } catch (const std::exception& error) {
    EXPECT_EQ(std::string(error.what()).find("--state " + config().state), 0U) << error.what();
  }
}

TEST_P(ServerTest, keeps_no_state_without_a_file) {
  Server server(config());
  server.start();
  EXPECT_EQ(server.close_state(milliseconds(0)), std::nullopt);
}

TEST_P(ServerTest, stops_at_once_when_destroyed) {
  Server server(config());
  const io::FileDescriptor client = connect_to(server.start().port);
}

TEST_P(ServerTest, reports_a_port_in_use) {
  Server first(config());
  config::Config same = config();
  same.port = first.start().port;
  Server second(same);
  try {
    second.start();
    FAIL() << "a second server took the port";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(same.port)), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ServerTest,
                         ::testing::Values(base::IoBackend::uring, base::IoBackend::epoll),
                         [](const auto& backend) {
                           return backend.param == base::IoBackend::uring ? "uring" : "epoll";
                         });
INSTANTIATE_TEST_SUITE_P(Backends, ServerWithState,
                         ::testing::Values(base::IoBackend::uring, base::IoBackend::epoll),
                         [](const auto& backend) {
                           return backend.param == base::IoBackend::uring ? "uring" : "epoll";
                         });

}  // namespace
}  // namespace sluice::server
