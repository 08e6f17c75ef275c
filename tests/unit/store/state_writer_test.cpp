// Goal: cuts become durable in the background, and a stop loses none. Method: a store whose calls
// fail or hang on purpose, on the writer's real thread; at last a real file.
#include "store/state_writer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/state_file.hpp"
#include "support/scripted_store.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using std::chrono::milliseconds;
using End = StateWriter::End;
using enum FailureKind;

constexpr milliseconds long_enough{30'000};

// A commit of the wrapped store begins only when the gate is open.
class GatedStore final : public StateStore {
 public:
  explicit GatedStore(test::ScriptedStore& store) : store_(store) {}

  void open() { set(true); }
  void shut() { set(false); }
  void wait_until_it_hangs() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return hangs_; });
  }

  Result<void> commit(const Batch& batch) override {
    std::unique_lock lock(mutex_);
    hangs_ = !open_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    hangs_ = false;
    niceness = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
    return store_.commit(batch);
  }
  Result<void> tidy() override { return store_.tidy(); }
  Result<void> reopen() override { return store_.reopen(); }
  Result<void> close() override {
    if (closes) closes();
    return store_.close();
  }
  StoreSize size() const noexcept override { return store_.size(); }

  int niceness = 0;
  std::function<void()> closes;  // called before it does

 private:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

  test::ScriptedStore& store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  bool hangs_ = false;
};

// What a worker reads when it is woken.
struct Wake {
  WriterStatus status;
  uint64_t released_epoch;
  bool operator==(const Wake&) const = default;
};

class StateWriterTest : public ::testing::Test {
 protected:
  void start(uint32_t shards_count) {
    auto owned = std::make_unique<GatedStore>(store);
    gate = owned.get();
    writer = std::make_unique<StateWriter>(
        std::move(owned),
        StateWriterOptions{.shards_count = shards_count, .wake = [this] { wake(); }});
  }

  void wake() {
    const std::lock_guard lock(mutex);
    wakes.push_back({status(), writer->statistics().released_epoch.load()});
    changed.notify_all();
  }

  // As a worker does: reads the statistics each time it is woken.
  template <typename Condition>
  bool wait_for(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, long_enough, condition);
  }
  bool wait_released(uint64_t epoch) {
    return wait_for([&] { return writer->statistics().released_epoch.load() >= epoch; });
  }
  WriterStatus status() { return writer->statistics().status.load(); }

  test::ScriptedStore store;
  GatedStore* gate = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Wake> wakes;
  std::unique_ptr<StateWriter> writer;
};

TEST_F(StateWriterTest, commits_when_every_shard_has_handed_over) {
  start(2);
  EXPECT_TRUE(writer->hand_over({.epoch = 1, .shard = 0, .records_count = 2}));
  EXPECT_TRUE(writer->hand_over({.epoch = 1, .shard = 1, .records_count = 3}));
  ASSERT_TRUE(wait_released(1));
  EXPECT_TRUE(writer->statistics().is_durable(1));
  EXPECT_TRUE(writer->hand_over({.epoch = 2, .shard = 1}));
  EXPECT_TRUE(writer->hand_over({.epoch = 2, .shard = 0}));
  ASSERT_TRUE(wait_released(2));
  EXPECT_EQ(writer->stop(long_enough), End::clean);
  EXPECT_EQ(store.committed, (std::vector<test::ScriptedStore::Committed>{{1, 2, 0}, {2, 2, 0}}));
  EXPECT_EQ(writer->statistics().records_count.load(), 5u);
  EXPECT_EQ(wakes, (std::vector<Wake>{{WriterStatus::running, 1},
                                      {WriterStatus::running, 2},
                                      {WriterStatus::stopped, 2}}));
}

TEST_F(StateWriterTest, runs_at_a_low_priority) {
  start(1);
  writer->hand_over({.epoch = 1, .shard = 0});
  ASSERT_TRUE(wait_released(1));
  EXPECT_EQ(writer->stop(long_enough), End::clean);
  EXPECT_EQ(gate->niceness, std::min(::getpriority(PRIO_PROCESS, 0) + 10, 19));
}

TEST_F(StateWriterTest, keeps_no_worker_waiting_while_the_disk_hangs) {
  start(2);
  gate->shut();
  writer->hand_over({.epoch = 1, .shard = 0});
  writer->hand_over({.epoch = 1, .shard = 1});
  gate->wait_until_it_hangs();
  EXPECT_EQ(writer->statistics().released_epoch.load(), 0u);
  EXPECT_EQ(status(), WriterStatus::running);
  gate->open();
  EXPECT_TRUE(wait_released(1));
}

TEST_F(StateWriterTest, keeps_the_batch_until_the_disk_has_room) {
  store.commits = {full, full};
  start(1);
  writer->hand_over({.epoch = 1, .shard = 0});
  ASSERT_TRUE(wait_released(1));
  EXPECT_EQ(writer->stop(long_enough), End::clean);
  EXPECT_EQ(wakes, (std::vector<Wake>{{WriterStatus::failing, 0},
                                      {WriterStatus::running, 1},
                                      {WriterStatus::stopped, 1}}));
}

TEST_F(StateWriterTest, takes_no_more_when_the_file_is_gone) {
  store.commits = {moved};
  start(2);
  writer->hand_over({.epoch = 1, .shard = 0});
  writer->hand_over({.epoch = 1, .shard = 1});
  ASSERT_TRUE(wait_released(1)) << "the memory is the workers' again";
  EXPECT_EQ(status(), WriterStatus::failed);
  EXPECT_FALSE(writer->statistics().is_durable(1));
  EXPECT_FALSE(writer->hand_over({.epoch = 2, .shard = 0}));
  EXPECT_EQ(writer->stop(long_enough), End::unclean);
  EXPECT_EQ(store.calls, (std::vector<std::string>{"commit"}));
}

TEST_F(StateWriterTest, commits_the_last_batch_before_it_stops) {
  start(1);
  gate->shut();
  writer->hand_over({.epoch = 1, .shard = 0});
  gate->wait_until_it_hangs();
  std::thread opener([this] {
    ::usleep(50'000);
    gate->open();
  });
  EXPECT_EQ(writer->stop(long_enough), End::clean);
  opener.join();
  EXPECT_EQ(store.calls, (std::vector<std::string>{"commit", "tidy", "close"}));
  EXPECT_EQ(status(), WriterStatus::stopped);
  EXPECT_FALSE(writer->hand_over({.epoch = 2, .shard = 0}));
}

TEST_F(StateWriterTest, tries_again_while_it_may_when_it_stops) {
  store.commits = {full, full, full};
  start(1);
  writer->hand_over({.epoch = 1, .shard = 0});
  EXPECT_EQ(writer->stop(long_enough), End::clean);
  EXPECT_EQ(store.committed.size(), 1u);
}

TEST_F(StateWriterTest, gives_up_at_the_end_of_its_time) {
  store.commits.assign(1'000, full);
  start(1);
  writer->hand_over({.epoch = 1, .shard = 0});
  EXPECT_EQ(writer->stop(milliseconds(20)), End::unclean);
  EXPECT_EQ(store.calls.back(), "close");
  EXPECT_GE(store.calls.size(), 2u) << "it has tried";
  EXPECT_EQ(writer->statistics().released_epoch.load(), 1u);
}

TEST_F(StateWriterTest, drops_an_epoch_that_is_not_whole) {
  start(2);
  writer->hand_over({.epoch = 1, .shard = 0});
  EXPECT_EQ(writer->stop(long_enough), End::clean);
  EXPECT_TRUE(store.committed.empty());
  EXPECT_EQ(writer->statistics().released_epoch.load(), 1u);
}

// A shard would begin another cut in the middle of one: the last epoch looks like over.
TEST_F(StateWriterTest, releases_no_epoch_before_it_has_stopped) {
  start(2);
  uint64_t released = 0;
  gate->closes = [&] { released = writer->statistics().released_epoch.load(); };
  writer->hand_over({.epoch = 1, .shard = 0});
  EXPECT_EQ(writer->stop(long_enough), End::clean);
  EXPECT_EQ(released, 0u);
  EXPECT_EQ(writer->statistics().released_epoch.load(), 1u);
}

TEST_F(StateWriterTest, reports_that_it_hangs) {
  start(1);
  gate->shut();
  writer->hand_over({.epoch = 1, .shard = 0});
  gate->wait_until_it_hangs();
  EXPECT_EQ(writer->stop(milliseconds(0)), End::hanging);
  gate->open();
  EXPECT_EQ(writer->stop(long_enough), End::clean);
}

TEST(StateWriterWithFile, has_everything_in_the_file_when_it_stops) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  StateWriter writer(StateFile::open({.path = path}).value(), {.shards_count = 2});
  std::vector<test::OwnedPart> expected;
  for (uint64_t epoch = 1; epoch <= 20; ++epoch) {
    const test::OwnedCut first = test::OwnedCut(epoch, 0).part(1, std::to_string(epoch));
    const test::OwnedCut second = test::OwnedCut(epoch, 1).part(2, "b");
    ASSERT_TRUE(writer.hand_over(first.view()));
    ASSERT_TRUE(writer.hand_over(second.view()));
    while (writer.statistics().released_epoch.load() < epoch) ::usleep(100);
    expected.insert(expected.begin(), {{epoch, 1, 2, "b"}, {epoch, 0, 1, std::to_string(epoch)}});
  }
  EXPECT_EQ(writer.stop(long_enough), End::clean);
  EXPECT_EQ(test::read_file(path + "-wal"), "");
  EXPECT_EQ(test::read_content(path).parts, expected);
}

}  // namespace
}  // namespace sluice::store
