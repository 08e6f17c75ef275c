// Goal: a socket that cannot be watched ends the run with its cause.
// Method: a sender without a socket. Runs of the loop are in bench_command_test.cpp.
#include "load/loop.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sluicegate/error.hpp"

namespace sluice::load {
namespace {

class NoSocket final : public Sender {
 public:
  uint32_t ask(uint64_t) override { return 0; }
  bool held_back() const noexcept override { return false; }
  bool flush() override { return true; }
  void take_answers(Counters&) override {}
  bool has_answers() const override { return false; }
  uint32_t frames_in_flight() const noexcept override { return 0; }
  sluicegate::Traffic traffic() const noexcept override { return {}; }
  int native_handle() const noexcept override { return -1; }
  uint32_t epoll_events() const noexcept override { return 1; }
};

TEST(Loop, ends_where_a_socket_cannot_be_watched) {
  std::vector<std::unique_ptr<Sender>> senders;
  senders.push_back(std::make_unique<NoSocket>());
  try {
    Loop loop{std::move(senders), 0};
    FAIL() << "no exception";
  } catch (const sluicegate::ConnectionLost& error) {
    EXPECT_EQ(std::string(error.what()), "epoll_ctl failed: Bad file descriptor");
  }
}

}  // namespace
}  // namespace sluice::load
