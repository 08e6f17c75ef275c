// Goal: failures are tried again, reported once, and end what they must end. Method: a store whose
// calls fail on purpose, a clock that only the test moves, the log's lines from a file.
#include "store/epoch_committer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "log/log.hpp"
#include "support/scripted_store.hpp"

namespace sluice::store {
namespace {

using Outcome = EpochCommitter::Outcome;
using enum FailureKind;

constexpr int64_t ms = base::ns_per_ms;

class EpochCommitterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log_file = std::tmpfile();
    log::start({.format = log::Format::text, .includes_source = false, .stream = log_file});
  }
  void TearDown() override {
    log::stop(std::chrono::milliseconds(10'000));
    std::fclose(log_file);
  }

  Outcome commit(uint64_t epoch, uint64_t needed_from_epoch = 0,
                 uint64_t windows_needed_from_epoch = 0) {
    const ShardCut cut{.epoch = epoch, .records_count = 3};
    const Batch batch{.epoch = epoch,
                      .cuts = {&cut, 1},
                      .delete_before_epoch = needed_from_epoch,
                      .delete_windows_before_epoch = windows_needed_from_epoch};
    return committer.step(&batch);
  }

  // As long as it takes until the batch is committed; the times at which the store was asked.
  std::vector<int64_t> commit_at_last(uint64_t epoch) {
    std::vector<int64_t> tries_ms;
    while (true) {
      now_ns = std::max(now_ns, committer.due_ns(true));
      tries_ms.push_back(now_ns / ms);
      if (commit(epoch) == Outcome::committed) return tries_ms;
    }
  }

  uint64_t failures(FailureKind kind) {
    return statistics.failures[static_cast<size_t>(kind)].load();
  }

  // The lines so far, without their time; the log ends.
  std::vector<std::string> lines() {
    log::stop(std::chrono::milliseconds(10'000));
    std::rewind(log_file);
    std::vector<std::string> found;
    char line[1'000];
    while (std::fgets(line, sizeof line, log_file) != nullptr) {
      const std::string text = line;
      found.push_back(text.substr(text.find("level="), text.size() - text.find("level=") - 1));
    }
    return found;
  }

  std::FILE* log_file = nullptr;
  test::ScriptedStore store;
  WriterStatistics statistics;
  int64_t now_ns = 0;
  EpochCommitter committer{store, statistics, [this] { return base::Now{now_ns, 0}; }};
};

TEST_F(EpochCommitterTest, has_nothing_to_do_without_a_batch) {
  EXPECT_EQ(committer.due_ns(false), base::never_ns);
  EXPECT_EQ(committer.due_ns(true), 0);
  EXPECT_EQ(committer.step(nullptr), Outcome::idle);
  EXPECT_TRUE(store.calls.empty());
}

TEST_F(EpochCommitterTest, publishes_what_it_has_committed) {
  EXPECT_EQ(commit(7), Outcome::committed);
  EXPECT_EQ(commit(9), Outcome::committed);
  EXPECT_EQ(store.calls, (std::vector<std::string>{"commit", "tidy", "commit", "tidy"}));
  EXPECT_EQ(statistics.committed_epoch.load(), 9u);
  EXPECT_TRUE(statistics.is_durable(9));
  EXPECT_FALSE(statistics.is_durable(10));
  EXPECT_EQ(statistics.commits_count.load(), 2u);
  EXPECT_EQ(statistics.records_count.load(), 6u);
  EXPECT_EQ(statistics.file_bytes.load(), 2'000u);
  EXPECT_EQ(statistics.log_bytes.load(), 200u);
  EXPECT_EQ(statistics.status.load(), WriterStatus::running);
  EXPECT_TRUE(lines().empty());
}

TEST_F(EpochCommitterTest, measures_its_commits) {
  int64_t at_ns = 0;
  EpochCommitter slow(store, statistics, [&at_ns] { return base::Now{at_ns += 5 * ms, 0}; });
  const Batch batch{.epoch = 1};
  EXPECT_EQ(slow.step(&batch), Outcome::committed);
  EXPECT_EQ(statistics.commits_ns.load(), 5u * ms);
}

TEST_F(EpochCommitterTest, tries_again_after_pauses_that_grow) {
  store.commits.assign(9, full);
  EXPECT_EQ(commit_at_last(1),
            (std::vector<int64_t>{0, 100, 300, 700, 1'500, 3'100, 6'300, 11'300, 16'300, 21'300}));
  EXPECT_EQ(failures(full), 9u);
  store.commits.assign(1, full);
  EXPECT_EQ(commit_at_last(2), (std::vector<int64_t>{21'300, 21'400})) << "short again";
}

TEST_F(EpochCommitterTest, does_not_ask_the_store_within_a_pause) {
  store.commits.assign(1, io);
  EXPECT_EQ(commit(1), Outcome::waiting);
  EXPECT_EQ(statistics.status.load(), WriterStatus::failing);
  EXPECT_EQ(committer.due_ns(true), 100 * ms);
  EXPECT_EQ(committer.due_ns(false), base::never_ns);
  now_ns = 100 * ms - 1;
  EXPECT_EQ(commit(1), Outcome::waiting);
  EXPECT_EQ(store.calls.size(), 1u);
  committer.try_now();
  EXPECT_EQ(commit(1), Outcome::committed) << "unless it is asked to";
}

TEST_F(EpochCommitterTest, reports_an_outage_once_and_its_end) {
  for (const FailureKind kind : {full, full, io, full, io, busy, readonly, no_access}) {
    store.commits.push_back(kind);
  }
  commit_at_last(4);
  EXPECT_EQ(statistics.status.load(), WriterStatus::running);
  const auto found = lines();
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0],
            "level=ERROR message=\"the state is not written for now: the store: the file system "
            "has no room for it; make room there, or raise the quota of the server's user\" "
            "kind=full epoch=4");
  EXPECT_NE(found[1].find("kind=io"), std::string::npos);
  EXPECT_EQ(found[5], "level=INFO message=\"the state is written again\" epoch=4 after_ms=16300");
}

TEST_F(EpochCommitterTest, reports_the_next_outage_anew) {
  store.commits = {full, std::nullopt, full};
  commit_at_last(1);
  commit_at_last(2);
  EXPECT_EQ(lines().size(), 4u);
}

TEST_F(EpochCommitterTest, commits_while_tidying_up_fails) {
  store.tidies.assign(3, full);
  EXPECT_EQ(commit(1), Outcome::committed);
  EXPECT_EQ(statistics.status.load(), WriterStatus::failing);
  EXPECT_EQ(commit(2), Outcome::committed);
  EXPECT_EQ(store.calls, (std::vector<std::string>{"commit", "tidy", "commit"}))
      << "within the pause";
  EXPECT_EQ(statistics.status.load(), WriterStatus::failing);
  now_ns = committer.due_ns(false);
  EXPECT_EQ(now_ns, 100 * ms);
  EXPECT_EQ(committer.step(nullptr), Outcome::idle);
  now_ns = committer.due_ns(false);
  EXPECT_EQ(now_ns, 300 * ms);
  EXPECT_EQ(commit(3), Outcome::committed);
  now_ns = committer.due_ns(false);
  EXPECT_EQ(committer.step(nullptr), Outcome::idle);
  EXPECT_EQ(statistics.status.load(), WriterStatus::running);
  EXPECT_EQ(committer.due_ns(false), base::never_ns);
  EXPECT_EQ(lines().size(), 2u) << "one outage";
}

TEST_F(EpochCommitterTest, reopens_after_a_failed_fsync_and_has_everything_written_anew) {
  EXPECT_EQ(commit(1), Outcome::committed);
  store.calls.clear();
  store.commits = {fsync};
  EXPECT_EQ(commit(2), Outcome::waiting);
  EXPECT_EQ(statistics.rewrites_count.load(), 1u);
  EXPECT_EQ(statistics.committed_epoch.load(), 1u);
  commit_at_last(2);
  EXPECT_EQ(store.calls, (std::vector<std::string>{"commit", "reopen", "commit", "tidy"}));
  EXPECT_EQ(statistics.status.load(), WriterStatus::running);
  EXPECT_EQ(statistics.committed_epoch.load(), 2u);
}

TEST_F(EpochCommitterTest, goes_on_reopening_until_that_works) {
  store.commits = {fsync, fsync};
  store.reopens = {io, no_access, fsync};
  commit_at_last(1);
  EXPECT_EQ(store.calls, (std::vector<std::string>{"commit", "reopen", "reopen", "reopen", "reopen",
                                                   "commit", "reopen", "commit", "tidy"}));
  EXPECT_EQ(statistics.rewrites_count.load(), 3u);
  EXPECT_EQ(failures(fsync), 3u);
}

TEST_F(EpochCommitterTest, reopens_without_a_batch_when_tidying_up_failed) {
  store.tidies = {fsync, std::nullopt};
  EXPECT_EQ(commit(1), Outcome::committed);
  EXPECT_EQ(statistics.rewrites_count.load(), 1u);
  EXPECT_EQ(committer.due_ns(false), 0) << "the commit has no pause";
  EXPECT_EQ(committer.step(nullptr), Outcome::idle);
  now_ns = committer.due_ns(false);
  EXPECT_EQ(committer.step(nullptr), Outcome::idle);
  EXPECT_EQ(store.calls, (std::vector<std::string>{"commit", "tidy", "reopen", "tidy"}));
  EXPECT_EQ(statistics.status.load(), WriterStatus::running);
}

TEST_F(EpochCommitterTest, deletes_what_a_lap_has_superseded_once) {
  commit(5, 3);
  commit(6, 3);
  commit(7, 6);
  EXPECT_EQ(store.committed,
            (std::vector<test::ScriptedStore::Committed>{{5, 1, 3}, {6, 1, 0}, {7, 1, 6}}));
}

TEST_F(EpochCommitterTest, deletes_nothing_that_a_lap_from_before_a_failed_fsync_superseded) {
  commit(5);
  store.commits = {fsync};
  commit(6, 4);
  commit_at_last(6);
  commit(7, 4);
  commit(8, 6);
  EXPECT_EQ(store.committed.back(), (test::ScriptedStore::Committed{8, 1, 0}));
  commit(9, 7);
  EXPECT_EQ(store.committed.back(), (test::ScriptedStore::Committed{9, 1, 7}))
      << "a lap that began with the next cut has written everything";
}

TEST_F(EpochCommitterTest, deletes_windows_likewise_by_laps_of_their_own) {
  commit(5, 3, 2);
  commit(6, 3, 4);
  store.commits = {fsync};
  commit(7, 6, 6);
  commit_at_last(7);
  commit(8, 0, 7);
  commit(9, 0, 8);
  EXPECT_EQ(store.committed,
            (std::vector<test::ScriptedStore::Committed>{
                {5, 1, 3, 2}, {6, 1, 0, 4}, {7, 1, 0, 0}, {8, 1, 0, 0}, {9, 1, 0, 8}}));
}

TEST_F(EpochCommitterTest, deletes_with_the_commit_that_succeeds) {
  store.commits = {full};
  commit(5, 3);
  now_ns = committer.due_ns(true);
  EXPECT_EQ(commit(5, 3), Outcome::committed);
  EXPECT_EQ(store.committed, (std::vector<test::ScriptedStore::Committed>{{5, 1, 3}}));
}

TEST_F(EpochCommitterTest, stops_writing_a_file_that_is_damaged_or_gone) {
  for (const FailureKind kind : {corrupt, moved}) {
    WriterStatistics other;
    EpochCommitter ending(store, other, [this] { return base::Now{now_ns, 0}; });
    store.commits = {kind};
    store.calls.clear();
    const Batch batch{.epoch = 1};
    EXPECT_EQ(ending.step(&batch), Outcome::failed);
    EXPECT_EQ(other.status.load(), WriterStatus::failed);
    EXPECT_EQ(ending.step(&batch), Outcome::failed);
    EXPECT_EQ(ending.due_ns(true), base::never_ns);
    EXPECT_FALSE(ending.close()) << "the file is left as it is";
    EXPECT_EQ(store.calls, (std::vector<std::string>{"commit"}));
    EXPECT_EQ(other.status.load(), WriterStatus::failed);
  }
  const auto found = lines();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].starts_with("level=ERROR message=\"the state is no longer written: "));
}

TEST_F(EpochCommitterTest, stops_writing_when_it_finds_damage_while_it_tidies_up) {
  store.tidies = {corrupt};
  EXPECT_EQ(commit(1), Outcome::committed);
  EXPECT_EQ(statistics.status.load(), WriterStatus::failed);
  EXPECT_EQ(statistics.committed_epoch.load(), 1u);
  EXPECT_EQ(commit(2), Outcome::failed);
}

TEST_F(EpochCommitterTest, has_a_name_for_each_status) {
  EXPECT_EQ(status_name(WriterStatus::running), "running");
  EXPECT_EQ(status_name(WriterStatus::failing), "failing");
  EXPECT_EQ(status_name(WriterStatus::failed), "failed");
  EXPECT_EQ(status_name(WriterStatus::stopped), "stopped");
}

TEST_F(EpochCommitterTest, closes_its_store) {
  commit(1);
  EXPECT_TRUE(committer.close());
  EXPECT_EQ(statistics.status.load(), WriterStatus::stopped);
  EXPECT_EQ(store.calls.back(), "close");
}

TEST_F(EpochCommitterTest, reports_a_store_that_does_not_close) {
  store.closes = {full};
  EXPECT_FALSE(committer.close());
  EXPECT_EQ(statistics.status.load(), WriterStatus::stopped);
  EXPECT_EQ(lines().size(), 1u);
}

}  // namespace
}  // namespace sluice::store
