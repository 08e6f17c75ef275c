// Goal: a socket that cannot be watched ends the run with its cause; frames of an open loop are due
// one after the other, whichever sender sends them.
// Method: senders without a server, which note what is due. Runs of the loop are in
// bench_command_test.cpp.
#include "load/loop.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "sluicegate/error.hpp"

namespace sluice::load {
namespace {

constexpr uint32_t frame_entries = 10;

class NoServer final : public Sender {
 public:
  explicit NoServer(int file) : file_{file} {}
  ~NoServer() override {
    if (file_ >= 0) close(file_);
  }

  uint32_t ask(uint64_t from_ns) override {
    due_ns.push_back(from_ns);
    return frame_entries;
  }
  bool held_back() const noexcept override { return false; }
  bool flush() override { return true; }
  void take_answers(Counters&) override {}
  bool has_answers() const override { return false; }
  uint32_t frames_in_flight() const noexcept override { return 0; }
  sluicegate::Traffic traffic() const noexcept override { return {}; }
  int native_handle() const noexcept override { return file_; }
  uint32_t epoll_events() const noexcept override { return 1; }

  std::vector<uint64_t> due_ns;  // of each frame

 private:
  int file_;
};

TEST(Loop, ends_where_a_socket_cannot_be_watched) {
  std::vector<std::unique_ptr<Sender>> senders;
  senders.push_back(std::make_unique<NoServer>(-1));
  try {
    Loop loop{std::move(senders), 0, frame_entries};
    FAIL() << "no exception";
  } catch (const sluicegate::ConnectionLost& error) {
    EXPECT_EQ(std::string(error.what()), "epoll_ctl failed: Bad file descriptor");
  }
}

TEST(Loop, sends_the_frames_of_all_senders_at_equal_distances) {
  constexpr size_t senders_count = 4;
  constexpr uint64_t distance_ns = 1'000'000;
  std::vector<std::unique_ptr<Sender>> senders;
  std::vector<const NoServer*> asked;
  for (size_t i = 0; i < senders_count; ++i) {
    auto sender = std::make_unique<NoServer>(eventfd(0, EFD_CLOEXEC));
    asked.push_back(sender.get());
    senders.push_back(std::move(sender));
  }
  Loop loop{std::move(senders), frame_entries * 1e9 / distance_ns, frame_entries};
  loop.run([&](uint64_t) { return asked.back()->due_ns.size() < 3; });
  const uint64_t begin_ns = asked.front()->due_ns.front();
  for (size_t i = 0; i < senders_count; ++i) {
    for (size_t frame = 0; frame < 3; ++frame) {
      const uint64_t due_ns = begin_ns + (frame * senders_count + i) * distance_ns;
      EXPECT_NEAR(static_cast<double>(asked[i]->due_ns[frame]), static_cast<double>(due_ns), 10)
          << "sender " << i << ", frame " << frame;
    }
  }
  EXPECT_GE(loop.counters().send_delay.count(), 3 * senders_count - 3);
}

}  // namespace
}  // namespace sluice::load
