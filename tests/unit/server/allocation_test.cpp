// Goal: the real loop allocates nothing in steady state: native, by key and by handle, REST, waits,
//       releases; on one shard, and with two, where about half of the entries belong to the other.
// Method: one or two workers over each kernel back end with clients on loopback sockets, all in one
//         thread; operator new aborts while a worker runs. The first rounds may allocate.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
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

  // Returns what has arrived since the last call.
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

struct Setting {
  base::IoBackend backend;
  uint32_t shards;
};

class AllocationTest : public ::testing::TestWithParam<Setting> {
 protected:
  // The clients' connections are on the first shard.
  void SetUp() override {
    if (GetParam().backend == base::IoBackend::uring) {
      ASSERT_EQ(io::probe_uring(), "");
    }
    io::Options options;
    options.sockets_max = 128;
    io::Listening http = io::listen_on({.address = "127.0.0.1"});
    io::Listening native = io::listen_on({.address = "127.0.0.1"});
    options.listeners.push_back(std::move(http.sockets[0]));
    options.listeners.push_back(std::move(native.sockets[0]));
    add_shard(std::move(options));
    while (shards_.size() < GetParam().shards) add_shard({});
    http_ = std::make_unique<Peer>(http.port);
    native_ = std::make_unique<Peer>(native.port);
    ASSERT_TRUE(http_->connected() && native_->connected());
    std::vector<uint64_t> hello;
    sluicegate::encode(0, sluicegate::Hello{.client_name = "test"}, hello);
    native_->send(hello);
    turn_until_answer(*native_);
  }

  void add_shard(io::Options io_options) {
    WorkerOptions options{.shard = {.keys_max = 10'000,
                                    .waiters_max = 1'000,
                                    .policy = {.window_ms = 3'600'000, .max_requests = 1'000'000}},
                          .connections_max = 16};
    options.sessions.shard = static_cast<uint32_t>(shards_.size());
    options.sessions.shards = GetParam().shards;
    TestShard& shard = shards_.emplace_back();
    shard.io = io::make_io({.backend = GetParam().backend}, std::move(io_options)).io;
    shard.worker =
        std::make_unique<Worker>(*shard.io, options, worker_group_, make_deciders(options));
    if (shards_.size() == 1) shard.worker->start();  // the others have no listeners
  }

  // Runs the workers until the peer has received something; once `strict_`, without allocation.
  std::string turn_until_answer(Peer& peer) {
    for (int turn = 0; turn < 2'000; ++turn) {
      turn_once();
      std::string answer = peer.receive();
      if (!answer.empty()) return answer;
    }
    ADD_FAILURE() << "no answer";
    return {};
  }

  // Runs the workers until the native client has at least `count` whole frames.
  std::vector<uint64_t> turn_until_frames(size_t count) {
    std::string bytes;
    for (int turn = 0; turn < 2'000; ++turn) {
      turn_once();
      bytes += native_->receive();
      if (bytes.empty()) continue;
      std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
      std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint64_t));
      size_t frames = 0;
      for (std::span<const uint64_t> rest{words}; !rest.empty();) {
        const auto size = sluicegate::frame_words(rest);
        if (!size || *size > rest.size()) break;
        rest = rest.subspan(*size);
        ++frames;
      }
      if (frames >= count) return words;
    }
    ADD_FAILURE() << "no answer";
    return {};
  }

  void turn_once() {
    for (const TestShard& shard : shards_) {
      if (!strict_) {
        shard.worker->turn(base::ns_per_ms);
        continue;
      }
      const support::ForbidAllocation forbid;
      shard.worker->turn(base::ns_per_ms);
    }
  }

  uint32_t sum(uint32_t (*count)(const Worker&)) const {
    uint32_t total = 0;
    for (const TestShard& shard : shards_) total += count(*shard.worker);
    return total;
  }
  uint32_t tickets() const {
    return sum([](const Worker& worker) { return worker.tickets_count(); });
  }
  uint32_t waiters() const {
    return sum([](const Worker& worker) { return worker.keys().waiters_count(); });
  }
  uint32_t keys_made() const {
    return sum([](const Worker& worker) { return worker.keys().keys_count(); });
  }

  void native_round(uint64_t id) {
    std::vector<std::string_view> keys(256, "a-key-that-is-asked");
    for (size_t i = 0; i < keys.size(); i += 2) keys[i] = several_[i % several_.size()];
    std::vector<uint64_t> frames;
    sluicegate::encode(id, sluicegate::Acquire{.keys = keys}, frames);
    sluicegate::encode(
        id + 1, sluicegate::Acquire{.keys = keys, .details = sluicegate::detail::all}, frames);
    sluicegate::encode(id + 2, sluicegate::Release{.keys = keys}, frames);
    sluicegate::encode(id + 3, sluicegate::Ping{}, frames);
    native_->send(frames);
    turn_until_answer(*native_);
  }

  // Interns keys that are also used by text; with two shards some of them are the other's.
  void intern_several() {
    std::vector<uint64_t> frame;
    sluicegate::encode(1, sluicegate::Intern{.keys = several_}, frame);
    native_->send(frame);
    const auto answers = turn_until_frames(1);
    const auto interned = std::get<sluicegate::Interned>(sluicegate::decode(answers));
    handles_.assign(interned.handles.begin(), interned.handles.end());
    ASSERT_EQ(handles_.size(), several_.size());
  }

  // Plain frames, which go to the handle slots if the shard owns all keys, mixed with others; and
  // keys that are interned and forgotten again.
  void handle_round(uint64_t id) {
    std::vector<uint32_t> asked(256);
    for (size_t i = 0; i < asked.size(); ++i) asked[i] = handles_[i % handles_.size()];
    const std::vector<std::string_view> keys(2, several_[id / 100 % several_.size()]);
    const std::vector<std::string_view> passing(waited_.begin(), waited_.end());
    std::vector<uint64_t> frames;
    sluicegate::encode(id, sluicegate::AcquireByHandle{.handles = asked}, frames);
    sluicegate::encode(id + 1, sluicegate::Acquire{.keys = keys}, frames);
    sluicegate::encode(id + 2, sluicegate::AcquireByHandle{.handles = asked}, frames);
    sluicegate::encode(
        id + 3, sluicegate::AcquireByHandle{.handles = asked, .details = sluicegate::detail::all},
        frames);
    sluicegate::encode(id + 4, sluicegate::Intern{.keys = passing}, frames);
    native_->send(frames);
    const std::vector<uint64_t> answers = turn_until_frames(5);
    std::vector<uint32_t> passing_handles;
    for (std::span<const uint64_t> rest{answers}; !rest.empty();) {
      const size_t size = sluicegate::frame_words(rest).value();
      const sluicegate::Answer answer = sluicegate::decode(rest.first(size));
      if (const auto* verdicts = std::get_if<sluicegate::Verdicts>(&answer)) {
        for (size_t i = 0; i < verdicts->verdicts.size(); ++i) {
          ASSERT_EQ(verdicts->verdicts[i], sluicegate::Verdict::approved);
        }
      } else {
        const auto& interned = std::get<sluicegate::Interned>(answer);
        passing_handles.assign(interned.handles.begin(), interned.handles.end());
      }
      rest = rest.subspan(size);
    }
    frames.clear();
    sluicegate::encode(id + 5, sluicegate::Forget{.handles = passing_handles}, frames);
    native_->send(frames);
    turn_until_frames(1);
    ASSERT_EQ(shards_[0].worker->keys().handles_count(), handles_.size());
  }

  // With one permit the second entry waits, and a release serves it, or the client withdraws it.
  void waiting_round(uint64_t id, bool withdrawn) {
    const std::vector<std::string_view> keys(2, waited_[id / 100 % waited_.size()]);
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
    for (int turn = 0; turn < 20 && tickets() > 0; ++turn) turn_once();
    EXPECT_EQ(tickets(), 0U);
  }

  void rest_round(uint64_t id) {
    const std::string held{std::array{"spring", "summer", "autumn", "winter"}[id / 100 % 4]};
    http_->send(
        "GET /rate/rest%20key HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /rate/other HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n");
    EXPECT_EQ(turn_until_answer(*http_).substr(0, 15), "HTTP/1.1 200 OK");
    http_->send("GET /rate/" + held + "?maxRequests=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    turn_until_answer(*http_);
    http_->send("GET /rate/" + held + "?canWait=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int turn = 0; turn < 2'000 && waiters() == 0; ++turn) turn_once();
    EXPECT_EQ(waiters(), 1U);
    const std::vector<std::string_view> keys(1, held);
    std::vector<uint64_t> release;
    sluicegate::encode(1, sluicegate::Release{.keys = keys}, release);
    native_->send(release);
    EXPECT_EQ(turn_until_answer(*http_).substr(0, 15), "HTTP/1.1 200 OK");
    http_->send("DELETE /rate/" + held + "/1 HTTP/1.1\r\nHost: x\r\n\r\n");
    turn_until_answer(*http_);
  }

  struct TestShard {
    std::unique_ptr<io::Io> io;
    std::unique_ptr<Worker> worker;
  };

  // Enough keys that both shards have some.
  const std::array<std::string_view, 8> several_{"one",  "two", "three", "four",
                                                 "five", "six", "seven", "eight"};
  const std::array<std::string_view, 4> waited_{"north", "east", "south", "west"};
  WorkerGroup worker_group_{{.shards = GetParam().shards}};
  std::vector<TestShard> shards_;
  std::unique_ptr<Peer> http_;
  std::unique_ptr<Peer> native_;
  std::vector<uint32_t> handles_;
  bool strict_ = false;
};

TEST_P(AllocationTest, nothing_is_allocated_in_steady_state) {
  for (uint64_t round = 0; round < 100; ++round) {
    strict_ = round >= 3;
    native_round(round * 100 + 1);
    waiting_round(round * 100 + 20, false);
    waiting_round(round * 100 + 40, true);
    rest_round(round * 100);
  }
}

TEST_P(AllocationTest, nothing_is_allocated_by_handle) {
  intern_several();
  for (uint64_t round = 0; round < 100; ++round) {
    strict_ = round >= 3;
    handle_round(round * 100 + 10);
    if (HasFailure()) return;
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
  EXPECT_EQ(keys_made(), 4'000U);
  EXPECT_EQ(shards_[0].worker->router().other_shard_entries() > 0, GetParam().shards > 1);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, AllocationTest,
    ::testing::Values(Setting{base::IoBackend::uring, 1}, Setting{base::IoBackend::epoll, 1},
                      Setting{base::IoBackend::uring, 2}, Setting{base::IoBackend::epoll, 2}),
    [](const auto& setting) {
      const bool uring = setting.param.backend == base::IoBackend::uring;
      return std::string{uring ? "uring" : "epoll"} + "_" + std::to_string(setting.param.shards);
    });

}  // namespace
}  // namespace sluice::server
