// Two Ios of a kind over real sockets, and the move of a connection from one to the other.
// Flow:   release() -> the descriptor -> adopt().
#pragma once

#include "io_fixture.hpp"

namespace sluice::io::test {

// One Io, its listener and its events.
template <typename Backend>
struct TestShard : IoTest<Backend> {
  using Base = IoTest<Backend>;
  using Base::accept_one;
  using Base::accept_one_of;
  using Base::accepted_;
  using Base::build;
  using Base::close_and_wait;
  using Base::events_max_;
  using Base::io_;
  using Base::poll_once;
  using Base::port_;
  using Base::read_to_end;
  using Base::reported;
  using Base::reports_;
  using Base::settle;
  using Base::until;
  void TestBody() override {}

  int release(SocketId socket) {
    io_->release(socket);
    return await_release(socket);
  }

  int await_release(SocketId socket) {
    EXPECT_TRUE(until([&] { return reported(socket).releases == 1; }, 2'000));
    return reported(socket).descriptor;
  }

  SocketId adopt(int fd) {
    const std::optional<SocketId> socket = io_->adopt(fd);
    EXPECT_TRUE(socket.has_value());
    reports_[{*socket}] = {};
    return *socket;
  }
};

template <typename Backend>
class IoMove : public testing::Test {
 protected:
  using Side = TestShard<Backend>;

  void build(const Options& a = {.sockets_max = 16}, const Options& b = {.sockets_max = 16}) {
    build_one(a_, a);
    build_one(b_, b);
  }

  static void build_one(Side& side, const Options& like) {
    side.build({.sockets_max = like.sockets_max,
                .receive_buffers = like.receive_buffers,
                .receive_buffer_bytes = like.receive_buffer_bytes});
  }

  static SocketId move(Side& from, Side& to, SocketId socket) {
    return to.adopt(from.release(socket));
  }

  Side a_;
  Side b_;
};

}  // namespace sluice::io::test
