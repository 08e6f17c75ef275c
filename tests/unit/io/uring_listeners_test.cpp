// Goal: connections that the kernel accepts while every slot is in use wait for one, and those that
// find no room to wait are closed. Method: completions that the test makes; no kernel accepts.
#include "io/uring/uring_listeners.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sluice::io::test {
namespace {

int open_descriptor() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UringListeners, close_a_connection_that_has_no_room_to_wait_for_a_slot) {
  Ring ring(8, 16);
  PendingOperations operations(ring);
  UringSockets sockets(1);
  ChangedSlots changed(sockets.slots());
  Statistics statistics;
  const FileDescriptor only(open_descriptor());
  sockets.open(only.get());
  ASSERT_TRUE(sockets.full());
  std::array<Event, 8> events;
  EventSink sink(events);
  const int parked = open_descriptor();
  const int beyond = open_descriptor();
  {
    UringListeners listeners(1, 1, operations, sockets, changed, statistics);
    for (const int fd : {parked, beyond}) {
      io_uring_cqe accepted{};
      accepted.res = fd;
      accepted.flags = IORING_CQE_F_MORE;
      listeners.complete(accepted, 0, 0, sink);
    }
    EXPECT_TRUE(is_open(parked));
    EXPECT_FALSE(is_open(beyond));
    EXPECT_TRUE(sink.empty());
  }
  EXPECT_FALSE(is_open(parked)) << "it ends with its listener";
}

}  // namespace
}  // namespace sluice::io::test
