// Goal: frames that lie next to each other leave together, however slowly the socket takes them.
// Method: one end of a pair of sockets; the test reads and writes at the other one.
#include "load/socket_sender.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace sluice::load {
namespace {

class PlainSender final : public SocketSender {
 public:
  PlainSender(int socket, uint32_t window) : SocketSender{socket, window} {}
  uint32_t ask(uint64_t) override { return 0; }
  bool held_back() const noexcept override { return false; }
  void take_answers(Counters&) override {}
  using SocketSender::end_frame;
  using SocketSender::is_window_full;
  using SocketSender::queue;
  using SocketSender::receive;
};

class SocketSenderTest : public ::testing::Test {
 protected:
  static std::array<int, 2> connected() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    return ends;
  }
  ~SocketSenderTest() override {
    for (const int end : ends_) ::close(end);
  }
  // What has come at the other end.
  size_t read_all() {
    std::vector<char> room(1 << 20);
    size_t all = 0;
    for (ssize_t got = 0; (got = ::read(ends_[1], room.data(), room.size())) > 0;) {
      all += static_cast<size_t>(got);
    }
    return all;
  }
  std::span<const std::byte> frame(size_t begin, size_t bytes) const {
    return std::span{frames_}.subspan(begin, bytes);
  }

  const std::array<int, 2> ends_ = connected();
  const std::vector<std::byte> frames_{std::vector<std::byte>(8 << 20)};
  PlainSender sender_{ends_[0], 3};
};

TEST_F(SocketSenderTest, sends_neighbours_together) {
  EXPECT_TRUE(sender_.queue(frame(0, 10)));
  EXPECT_TRUE(sender_.queue(frame(10, 20)));
  EXPECT_FALSE(sender_.queue(frame(0, 10))) << "it does not lie behind the last one";
  EXPECT_EQ(sender_.frames_in_flight(), 2U);
  EXPECT_TRUE(sender_.flush());
  EXPECT_EQ(sender_.traffic().system_calls, 1U);
  EXPECT_EQ(sender_.traffic().bytes_sent, 30U);
  EXPECT_EQ(read_all(), 30U);
  EXPECT_TRUE(sender_.queue(frame(0, 10))) << "after a flush";
  EXPECT_TRUE(sender_.is_window_full());
  sender_.end_frame();
  EXPECT_FALSE(sender_.is_window_full());
}

TEST_F(SocketSenderTest, goes_on_where_the_socket_was_full) {
  ASSERT_TRUE(sender_.queue(frame(0, frames_.size())));
  size_t all = 0;
  while (!sender_.flush()) all += read_all();
  all += read_all();
  EXPECT_EQ(all, frames_.size());
  EXPECT_EQ(sender_.traffic().bytes_sent, frames_.size());
}

TEST_F(SocketSenderTest, receives_what_has_come) {
  std::array<std::byte, 8> room{};
  EXPECT_FALSE(sender_.receive(room));
  ASSERT_EQ(::write(ends_[1], "abc", 3), 3);
  EXPECT_EQ(sender_.receive(room), 3U);
  EXPECT_EQ(room[1], std::byte{'b'});
  EXPECT_EQ(sender_.traffic().bytes_received, 3U);
  ASSERT_EQ(::shutdown(ends_[1], SHUT_WR), 0);
  EXPECT_THROW(sender_.receive(room), sluicegate::ConnectionLost);
}

}  // namespace
}  // namespace sluice::load
