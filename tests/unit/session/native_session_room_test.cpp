// Goal: a frame whose keys' owners have no room is held with all frames behind it, counts nowhere,
//       and is handled once they have room.
// Method: a session over a backend that has room or none, as the test says.
#include <string>

#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

class NativeSessionRoomTest : public NativeQuotaFixture {
 protected:
  void send_acquire(uint64_t id) {
    send(id, [](ClientFrame frame) {
      auto acquire = frame.initAcquire();
      acquire.setKeys(kj::StringPtr("key").asBytes());
      acquire.setKeySizes({3});
    });
  }
  uint32_t intern_of_other_shard() {
    const std::string key = std::string(KeepingBackend::other_shards_prefix) + "key";
    send(2, [&](ClientFrame frame) {
      auto intern = frame.initIntern();
      intern.setKeys(kj::StringPtr(key.c_str()).asBytes());
      intern.setKeySizes({static_cast<uint16_t>(key.size())});
    });
    const uint32_t handle = answered_frame(0).getInterned().getHandles()[0];
    answers_.clear();
    return handle;
  }
  void send_by_handle(uint64_t id, uint32_t handle) {
    send(id, [&](ClientFrame frame) { frame.initAcquireByHandle().setHandles({handle}); });
  }
  void send_ping(uint64_t id) {
    send(id, [](ClientFrame frame) { frame.setPing(); });
  }
  // As the worker does when a shard has returned a message.
  void make_room(bool has_room) {
    backend_.owners_have_room = has_room;
    ASSERT_FALSE(context_.blocked.empty());
    context_.blocked.front().unblock();
    end_turn();
  }
  // The frame with this id was added, and is the only one.
  void expect_added(uint64_t id) {
    ASSERT_EQ(backend_.added.size(), 1U);
    EXPECT_EQ(backend_.added[0].id, id);
    EXPECT_TRUE(context_.blocked.empty());
    EXPECT_EQ(answers_.size(), 1U) << "the frame behind it";
  }
  void expect_held() {
    EXPECT_TRUE(backend_.added.empty());
    EXPECT_TRUE(answers_.empty());
  }
};

TEST_F(NativeSessionRoomTest, a_frame_by_key_waits_until_its_owners_have_room) {
  backend_.owners_have_room = false;
  send_acquire(5);
  send_ping(6);
  expect_held();
  make_room(false);  // another shard has made some
  expect_held();
  make_room(true);
  expect_added(5);
}

TEST_F(NativeSessionRoomTest, a_frame_by_handle_waits_until_its_owners_have_room) {
  const uint32_t handle = intern_of_other_shard();
  backend_.owners_have_room = false;
  send_by_handle(5, handle);
  send_ping(6);
  expect_held();
  make_room(false);
  expect_held();
  make_room(true);
  expect_added(5);
}

// Its id is not outstanding before it joins the turn.
TEST_F(NativeSessionRoomTest, a_held_session_can_end) {
  backend_.owners_have_room = false;
  send_acquire(5);
  session_.close();
  EXPECT_TRUE(backend_.added.empty());
}

}  // namespace
}  // namespace sluice::session
