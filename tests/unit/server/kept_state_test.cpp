// Goal:   a server's state file is made, written while it runs, closed, and gone on with at the
//         next start.
// Method: real files and the writer's real thread; the test plays the shards. To fail, files may
//         not grow.
#include "server/kept_state.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "io/clock.hpp"
#include "server/state_keeper.hpp"
#include "tests/support/stored_state.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/quota/store_driver.hpp"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;
using End = store::StateWriter::End;

constexpr milliseconds long_enough{30'000};
constexpr StateSeeds seeds{.name_seed = 11, .routing_seed = 22};

// A shard of a server whose turns are made by a thread that wakes the state.
class KeptStateTest : public testing::Test {
 protected:
  ~KeptStateTest() override { end(); }

  static quota::Options options() {
    quota::Options options{.subjects_max = 100,
                           .reservations_max = 100,
                           .waiters_max = 10,
                           .name_seed = seeds.name_seed,
                           .id_seed = 42,
                           .keeps_state = true};
    options.routing_seed = seeds.routing_seed;
    return options;
  }
  static base::Now clock(const KeptState& kept) {
    base::Now now = io::read_clock();
    now.monotonic_ns += kept.clock_offset_ns();
    return now;
  }

  void start(const StateSeeds& drawn = seeds) {
    kept_ = std::make_unique<KeptState>(KeptStateOptions{
        .path = path_, .sync_ms = 10, .seeds = drawn, .wake = [this] { ++wakes_; }});
    driver_ = std::make_unique<quota::StoreDriver>(options());
    set_clock();
    const StateOptions state = kept_->options();
    has_source_ = state.source != nullptr;
    if (state.source != nullptr) {
      restored_ = state.source->restore(driver_->store, driver_->now());
    }
    keeper_ = std::make_unique<StateKeeper>(state, options(), driver_->store, no_windows_);
    kept_->has_started(restored_, {});
  }
  void set_clock() {
    const base::Now now = clock(*kept_);
    driver_->ns = now.monotonic_ns;
    driver_->wall_ns = now.wall_ns;
  }
  // Turns, until the shard ends.
  void turn() {
    set_clock();
    keeper_->keep(driver_->now(), 0);
  }
  void begin_turns() {
    turns_ = true;
    worker_ = std::thread([this] {
      while (turns_) {
        turn();
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
  }
  End stop(milliseconds timeout = long_enough) {
    begin_turns();
    const End end = kept_->stop(timeout);
    end_turns();
    return end;
  }
  void end_turns() {
    turns_ = false;
    if (worker_.joinable()) worker_.join();
  }
  void end() {
    end_turns();
    if (kept_) kept_->stop_writer();
    keeper_.reset();
    kept_.reset();
    driver_.reset();
  }
  void commit() {
    while (!kept_->schedule().is_committed() || keeper_->has_changes()) {
      turn();
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("state");
  std::atomic<int> wakes_ = 0;
  std::atomic<bool> turns_ = false;
  std::thread worker_;
  bool has_source_ = false;
  quota::Restored restored_;
  std::unique_ptr<KeptState> kept_;
  std::unique_ptr<quota::StoreDriver> driver_;
  shard::KeyShard keys_{{.keys_max = 1}};
  WindowKeeper no_windows_{{}, {}, keys_};
  std::unique_ptr<StateKeeper> keeper_;
};

std::string meta_of(const test::Content& content, const std::string& key) {
  for (const auto& each : content.meta) {
    if (each.key == key) return each.value;
  }
  return "";
}

TEST_F(KeptStateTest, a_new_file_gets_the_seeds_that_were_drawn) {
  start();
  EXPECT_FALSE(has_source_) << "there is nothing to load";
  EXPECT_EQ(kept_->clock_offset_ns(), 0);
  EXPECT_EQ(kept_->seeds().name_seed, 11U);
  EXPECT_EQ(kept_->seeds().routing_seed, 22U);
  EXPECT_TRUE(test::read_content(path_).meta.empty()) << "a start that fails changes nothing";
  driver_->put("a", {quota::rpd(100)});
  commit();
  const test::Content content = test::read_content(path_);
  EXPECT_EQ(meta_of(content, name_seed_key), "11");
  EXPECT_EQ(meta_of(content, routing_seed_key), "22");
  EXPECT_EQ(meta_of(content, shards_key), "1");
  EXPECT_EQ(meta_of(content, version_key), SLUICE_VERSION);
}

TEST_F(KeptStateTest, the_next_start_goes_on_where_the_last_has_ended) {
  start();
  driver_->put("a", {quota::rpd(100)});
  driver_->record({"a"}, {.requests = 7});
  const int64_t last_ns = driver_->ns;
  EXPECT_EQ(stop(), End::clean);
  const uint64_t epoch = kept_->schedule().epoch();
  EXPECT_GT(wakes_.load(), 0);
  end();
  start({.name_seed = 1, .routing_seed = 2});
  EXPECT_EQ(kept_->seeds().name_seed, 11U) << "those of the file";
  EXPECT_EQ(kept_->seeds().routing_seed, 22U);
  EXPECT_TRUE(has_source_);
  EXPECT_EQ(restored_.subjects, 1U);
  EXPECT_EQ(driver_->used("a", "rpd"), 7U);
  EXPECT_GE(driver_->ns, last_ns) << "time goes on";
  EXPECT_EQ(kept_->schedule().epoch(), epoch);
  EXPECT_TRUE(kept_->schedule().is_committed());
}

TEST_F(KeptStateTest, a_crash_loses_what_was_not_committed) {
  start();
  driver_->put("a", {quota::rpd(100)});
  driver_->record({"a"}, {.requests = 7});
  commit();
  driver_->record({"a"}, {.requests = 50});
  EXPECT_EQ(kept_->stop_writer(), End::clean) << "nothing was handed over";
  end();
  start();
  EXPECT_EQ(driver_->used("a", "rpd"), 7U);
}

TEST_F(KeptStateTest, a_stop_commits_the_last_changes) {
  start();
  driver_->put("a", {quota::rpd(100)});
  commit();
  driver_->record({"a"}, {.requests = 50});
  EXPECT_EQ(stop(), End::clean);
  end();
  start();
  EXPECT_EQ(driver_->used("a", "rpd"), 50U);
}

// The state's time is that of the end, also without a change.
TEST_F(KeptStateTest, a_stop_commits_once_more_when_nothing_has_changed) {
  start();
  EXPECT_EQ(stop(), End::clean);
  EXPECT_EQ(kept_->schedule().epoch(), 1U);
  end();
  EXPECT_EQ(test::read_content(path_).parts.size(), 1U);
}

// Of a shard that makes no turns.
TEST_F(KeptStateTest, a_stop_without_the_cut_of_all_shards_is_unclean) {
  start();
  driver_->put("a", {quota::rpd(100)});
  EXPECT_EQ(kept_->stop(milliseconds(20)), End::unclean);
  EXPECT_EQ(wakes_.load(), 2) << "for that cut, and when the writer has ended";
}

TEST_F(KeptStateTest, a_stop_is_unclean_while_the_disk_is_full) {
  start();
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  driver_->put("a", {quota::rpd(100)});
  const End end_reached = stop(milliseconds(300));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(end_reached, End::unclean);
  end();
  start();
  EXPECT_EQ(restored_.subjects, 0U);
  EXPECT_EQ(stop(), End::clean) << "the file is as it was";
}

TEST_F(KeptStateTest, a_stop_does_not_wait_when_nothing_is_written_any_more) {
  start();
  std::filesystem::remove(path_);
  driver_->put("a", {quota::rpd(100)});
  const int64_t begin_ns = io::read_clock().monotonic_ns;
  EXPECT_EQ(stop(), End::unclean);
  EXPECT_LT(io::read_clock().monotonic_ns - begin_ns, 20 * base::ns_per_s);
  EXPECT_EQ(kept_->schedule().statistics().status.load(), store::WriterStatus::failed);
}

TEST_F(KeptStateTest, refuses_a_file_that_another_server_has) {
  start();
  try {
    KeptState second({.path = path_, .wake = [] {}});
    FAIL() << "it has taken the file";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("--state " + path_), 0U) << error.what();
  }
}

}  // namespace
}  // namespace sluice::server
