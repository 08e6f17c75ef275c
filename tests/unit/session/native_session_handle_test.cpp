// Goal: the handles of a connection count as another shard's exactly while it holds one of those.
// Method: a session over a backend that only records calls; the test answers requests. What shows
//         the count: while it is not zero, the backend finds the keys of a frame, and says here
//         that their text is too long.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

class NativeSessionHandleTest : public NativeQuotaFixture {
 protected:
  NativeSessionHandleTest() {
    backend_.executed = [this] { approve_all(); };
    backend_.found_bytes = limits::handles_text_bytes_max + 1;
  }

  uint32_t intern(const std::string& key) {
    send(++id_, [&](ClientFrame frame) {
      auto intern = frame.initIntern();
      intern.setKeys(kj::StringPtr(key.c_str()).asBytes());
      intern.setKeySizes({static_cast<uint16_t>(key.size())});
    });
    return answered_frame(answers_.size() - 1).getInterned().getHandles()[0];
  }
  uint32_t intern_of_other_shard(const std::string& key) {
    return intern(std::string(KeepingBackend::other_shards_prefix) + key);
  }
  void forget(uint32_t handle) {
    send(++id_, [&](ClientFrame frame) { frame.initForget().setHandles({handle}); });
  }
  // Whether a frame with this handle is refused because of the text of its keys.
  bool has_keys_found(uint32_t handle) {
    send(++id_, [&](ClientFrame frame) { frame.initAcquireByHandle().setHandles({handle}); });
    backend_.execute();
    end_turn();
    const auto answer = answered_frame(answers_.size() - 1);
    if (answer.isVerdicts()) return false;
    EXPECT_EQ(answer.getError().getCode(), schema::ErrorCode::TOO_MANY_ENTRIES);
    return true;
  }

 private:
  void approve_all() {
    route::Turn& turn = context_.turn;
    std::ranges::fill(turn.verdicts(), api::Verdict::approved);
    for (const route::Request& request : turn.requests()) {
      session_.on_verdicts(
          request, {.entries = turn.entries().subspan(request.first_entry, request.entries_count),
                    .verdicts = turn.verdicts().subspan(request.first_entry, request.entries_count),
                    .details = {}});
    }
    turn.clear();
  }

  uint64_t id_ = 1;
};

TEST_F(NativeSessionHandleTest, counts_each_handle_of_another_shard_while_it_is_held) {
  const uint32_t own = intern("own");
  const uint32_t forgotten = intern("forgotten");
  EXPECT_FALSE(has_keys_found(own));
  for (int each = 0; each < 3; ++each) {
    const uint32_t first = intern_of_other_shard("first");
    const uint32_t second = intern_of_other_shard("second");
    EXPECT_EQ(intern_of_other_shard("first"), first);  // still held once
    EXPECT_TRUE(has_keys_found(own));
    forget(forgotten);
    forget(first);
    forget(first);
    EXPECT_TRUE(has_keys_found(own));
    forget(second);
    EXPECT_FALSE(has_keys_found(own));
    EXPECT_EQ(intern("forgotten"), forgotten);
  }
}

}  // namespace
}  // namespace sluice::session
