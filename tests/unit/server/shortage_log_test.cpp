// Goal: whoever reads the log learns why connections are turned away and what helps, in one line
// however often it happens.
#include "server/shortage_log.hpp"

#include <cerrno>
#include <initializer_list>
#include <string>
#include <utility>

#include "log_fixture.hpp"
#include "server/worker.hpp"
#include "server/worker_group.hpp"
#include "tests/support/fake_io.hpp"

namespace sluice::server {
namespace {

class ShortageLogTest : public test::LogTest {
 protected:
  static base::Now at(int64_t ms) { return {.monotonic_ns = ms * base::ns_per_ms, .wall_ns = 0}; }
};

TEST_F(ShortageLogTest, one_line_a_minute_has_cause_cure_and_count) {
  ShortageLog shortages;
  constexpr int64_t minute_ms = shortage_pause_ns / base::ns_per_ms;
  for (int64_t ms = 100; ms < minute_ms; ms += 100) shortages.note(-EMFILE, at(ms));
  shortages.note(-EMFILE, at(minute_ms + 100));
  const std::vector<test::Json> reported = lines();
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_EQ(reported[0],
            test::Json::parse(R"({"level": "WARN", "message": "connections are turned away: the )"
                              R"(process has no free file descriptor; raise the limit (ulimit -n, )"
                              R"(LimitNOFILE=) or lower --max-connections", )"
                              R"("cause": "Too many open files", "times": 1})"));
  EXPECT_EQ(reported[1]["times"], 599);
}

TEST_F(ShortageLogTest, each_cause_has_its_cure) {
  const std::initializer_list<std::pair<int, std::string>> cures = {
      {ENFILE, "fs.file-max"},
      {ENOMEM, "net.ipv4.tcp_mem"},
      {ENOBUFS, "net.ipv4.tcp_mem"},
      {ENOSPC, "fs.epoll.max_user_watches"},
      {EPERM, "accept4"},
      {EACCES, "accept4"},
      {ENOSYS, "accept4"},
      {EINVAL, "does not accept"}};
  for (const auto& [error, cure] : cures) {
    ShortageLog shortages;
    shortages.note(-error, at(1));
  }
  const std::vector<test::Json> reported = lines();
  ASSERT_EQ(reported.size(), cures.size());
  for (size_t i = 0; i < cures.size(); ++i) {
    const std::string message = reported[i]["message"];
    EXPECT_NE(message.find(cures.begin()[i].second), std::string::npos) << message;
  }
}

TEST_F(ShortageLogTest, a_refusal_has_a_line_of_its_own_with_cause_and_cure) {
  ShortageLog shortages;
  shortages.note(-EMFILE, at(1));
  for (int64_t ms = 1; ms < 1'000; ++ms) shortages.note_refusal(-EPERM, at(ms));
  const std::vector<test::Json> reported = lines();
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_EQ(
      reported[1],
      test::Json::parse(R"({"level": "WARN", "message": "requests are answered late or not )"
                        R"(at all: a system call that the server needs is forbidden; allow )"
                        R"(io_uring_enter (epoll_pwait2 or epoll_wait with --io epoll) in the )"
                        R"(seccomp profile", "cause": "Operation not permitted", "times": 1})"));
}

TEST_F(ShortageLogTest, each_cause_of_a_refusal_has_its_cure) {
  const std::initializer_list<std::pair<int, std::string>> cures = {
      {EAGAIN, "no memory"},     {EBUSY, "no memory"}, {ENOMEM, "no memory"},
      {ENOBUFS, "no memory"},    {EACCES, "seccomp"},  {ENOSYS, "seccomp"},
      {EINVAL, "other back end"}};
  for (const auto& [error, cure] : cures) {
    ShortageLog shortages;
    shortages.note_refusal(-error, at(1));
  }
  const std::vector<test::Json> reported = lines();
  ASSERT_EQ(reported.size(), cures.size());
  for (size_t i = 0; i < cures.size(); ++i) {
    const std::string message = reported[i]["message"];
    EXPECT_NE(message.find(cures.begin()[i].second), std::string::npos) << message;
  }
}

TEST_F(ShortageLogTest, reports_a_kernel_that_refuses_to_wait) {
  WorkerOptions options{.shard = {.keys_max = 10, .waiters_max = 10}, .connections_max = 3};
  WorkerGroup group{{.shards = 1}};
  support::FakeIo io;
  Worker worker(io, options, group, make_deciders(options));
  worker.start();
  for (int each = 0; each < 3; ++each) {
    io.events = {{.kind = io::EventKind::refused, .result = -EAGAIN}};
    worker.turn(0);
  }
  const std::vector<test::Json> reported = lines();
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0]["cause"], "Resource temporarily unavailable");
}

TEST_F(ShortageLogTest, a_reset_by_the_peer_is_no_shortage) {
  for (const int error : {ENOMEM, ENOBUFS, ENOSPC}) EXPECT_TRUE(ShortageLog::is_shortage(-error));
  for (const int error : {ECONNRESET, EPIPE, ETIMEDOUT}) {
    EXPECT_FALSE(ShortageLog::is_shortage(-error));
  }
}

// epoll_ctl() of an accepted socket, or its receive, finds no memory.
TEST_F(ShortageLogTest, reports_a_connection_that_fails_for_lack_of_memory) {
  WorkerOptions options{.shard = {.keys_max = 10, .waiters_max = 10}, .connections_max = 3};
  WorkerGroup group{{.shards = 1}};
  support::FakeIo io;
  Worker worker(io, options, group, make_deciders(options));
  worker.start();
  const io::SocketId socket{0, 1};
  for (const int32_t failure : {-ECONNRESET, -ENOMEM}) {
    io.events = {{.kind = io::EventKind::accepted, .listener = http_listener, .socket = socket},
                 {.kind = io::EventKind::failed, .socket = socket, .result = failure}};
    worker.turn(0);
    io.events = {{.kind = io::EventKind::closed, .socket = socket}};
    worker.turn(0);
  }
  const std::vector<test::Json> reported = lines();
  ASSERT_EQ(reported.size(), 1u) << "its peer's reset is no shortage";
  EXPECT_EQ(reported[0]["cause"], "Cannot allocate memory");
}

}  // namespace
}  // namespace sluice::server
