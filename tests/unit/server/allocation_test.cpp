// Goal: the real loop allocates nothing in steady state: native, REST, waits, releases.
// Method: a worker over each kernel back end with clients on loopback sockets, all in one thread;
//         operator new aborts while the worker turns. The first rounds may warm up.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "io/listen.hpp"
#include "io/probe.hpp"
#include "server/worker.hpp"
#include "sluicegate/frames.hpp"
#include "support/allocation_guard.hpp"

namespace sluice::server {
namespace {

class Peer {
 public:
  explicit Peer(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  bool connected() const { return connected_; }

  void send(std::string_view text) {
    ASSERT_EQ(::send(fd_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  void send(const std::vector<uint64_t>& words) {
    send({reinterpret_cast<const char*>(words.data()), words.size() * 8});
  }

  // What has arrived since the last call.
  std::string receive() {
    std::string text(256 * 1024, '\0');
    const ssize_t bytes = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    return text;
  }

 private:
  io::FileDescriptor fd_;
  bool connected_ = false;
};

class AllocationTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == io::Backend::uring) {
      ASSERT_EQ(io::probe_uring(), "");
    }
    io::Options options;
    options.sockets_max = 128;
    io::Listening http = io::listen_on({.address = "127.0.0.1"});
    io::Listening native = io::listen_on({.address = "127.0.0.1"});
    options.listeners.push_back(std::move(http.sockets[0]));
    options.listeners.push_back(std::move(native.sockets[0]));
    io_ = io::make_io(GetParam(), std::move(options));
    worker_ = std::make_unique<Worker>(
        *io_,
        WorkerOptions{.shard = {.keys_max = 10'000,
                                .waiters_max = 1'000,
                                .policy = {.window_ms = 3'600'000, .max_requests = 1'000'000}},
                      .connections_max = 16},
        crew_);
    worker_->start();
    http_ = std::make_unique<Peer>(http.port);
    native_ = std::make_unique<Peer>(native.port);
    ASSERT_TRUE(http_->connected() && native_->connected());
    std::vector<uint64_t> hello;
    sluicegate::encode(0, sluicegate::Hello{.client_name = "test"}, hello);
    native_->send(hello);
    turn_until_answer(*native_);
  }

  // Turns, allocation being forbidden once `strict_`, until the peer has received something.
  std::string turn_until_answer(Peer& peer) {
    for (int turn = 0; turn < 2'000; ++turn) {
      turn_once();
      std::string answer = peer.receive();
      if (!answer.empty()) return answer;
    }
    ADD_FAILURE() << "no answer";
    return {};
  }

  void turn_once() {
    if (!strict_) {
      worker_->turn(base::ns_per_ms);
      return;
    }
    const support::ForbidAllocation forbid;
    worker_->turn(base::ns_per_ms);
  }

  void native_round(uint64_t id) {
    const std::vector<std::string_view> keys(256, "a-key-that-is-asked");
    std::vector<uint64_t> frames;
    sluicegate::encode(id, sluicegate::Acquire{.keys = keys}, frames);
    sluicegate::encode(
        id + 1, sluicegate::Acquire{.keys = keys, .details = sluicegate::detail::all}, frames);
    sluicegate::encode(id + 2, sluicegate::Release{.keys = keys}, frames);
    sluicegate::encode(id + 3, sluicegate::Ping{}, frames);
    native_->send(frames);
    turn_until_answer(*native_);
  }

  // One permit: the second entry waits, and is served by a release or withdrawn.
  void waiting_round(uint64_t id, bool withdrawn) {
    const std::vector<std::string_view> keys(2, "one-at-a-time");
    const std::vector<uint32_t> one(2, 1);
    std::vector<uint64_t> frames;
    sluicegate::encode(
        id, sluicegate::Acquire{.keys = keys, .max_requests = one, .all_may_wait = true}, frames);
    if (withdrawn) sluicegate::encode(id + 1, sluicegate::Withdraw{.target = id}, frames);
    native_->send(frames);
    turn_until_answer(*native_);
    frames.clear();
    sluicegate::encode(id + 2, sluicegate::Release{.keys = std::span(keys).first(1)}, frames);
    if (!withdrawn) {
      sluicegate::encode(id + 3, sluicegate::Release{.keys = std::span(keys).first(1)}, frames);
    }
    native_->send(frames);
    turn_until_answer(*native_);
    for (int turn = 0; turn < 20 && worker_->tickets_count() > 0; ++turn) turn_once();
    EXPECT_EQ(worker_->tickets_count(), 0U);
  }

  void rest_round() {
    http_->send(
        "GET /rate/rest%20key HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /rate/other HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n");
    EXPECT_EQ(turn_until_answer(*http_).substr(0, 15), "HTTP/1.1 200 OK");
    http_->send("GET /rate/held?maxRequests=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    turn_until_answer(*http_);
    http_->send("GET /rate/held?canWait=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int turn = 0; turn < 2'000 && worker_->shard().waiters_count() == 0; ++turn) turn_once();
    EXPECT_EQ(worker_->shard().waiters_count(), 1U);
    const std::vector<std::string_view> keys(1, "held");
    std::vector<uint64_t> release;
    sluicegate::encode(1, sluicegate::Release{.keys = keys}, release);
    native_->send(release);
    EXPECT_EQ(turn_until_answer(*http_).substr(0, 15), "HTTP/1.1 200 OK");
    http_->send("DELETE /rate/held/1 HTTP/1.1\r\nHost: x\r\n\r\n");
    turn_until_answer(*http_);
  }

  Crew crew_{route::MeshOptions{}};
  std::unique_ptr<io::Io> io_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Peer> http_;
  std::unique_ptr<Peer> native_;
  bool strict_ = false;
};

TEST_P(AllocationTest, nothing_is_allocated_in_steady_state) {
  for (uint64_t round = 0; round < 100; ++round) {
    strict_ = round >= 3;
    native_round(round * 100 + 1);
    waiting_round(round * 100 + 20, false);
    waiting_round(round * 100 + 40, true);
    rest_round();
  }
}

TEST_P(AllocationTest, new_keys_are_made_without_allocating) {
  strict_ = true;
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<std::string> names;
    for (int key = 0; key < 200; ++key) {
      names.push_back("new-" + std::to_string(round) + "-" + std::to_string(key));
    }
    const std::vector<std::string_view> keys(names.begin(), names.end());
    std::vector<uint64_t> frame;
    sluicegate::encode(round + 1, sluicegate::Acquire{.keys = keys}, frame);
    native_->send(frame);
    turn_until_answer(*native_);
  }
  EXPECT_EQ(worker_->shard().keys_count(), 4'000U);
}

INSTANTIATE_TEST_SUITE_P(Backends, AllocationTest,
                         ::testing::Values(io::Backend::uring, io::Backend::epoll),
                         [](const auto& backend) {
                           return backend.param == io::Backend::uring ? "uring" : "epoll";
                         });

}  // namespace
}  // namespace sluice::server
