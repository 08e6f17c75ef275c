// Goal: after any failure of the disk, at any call, the file has one whole epoch and none is lost
// that was acknowledged. Method: a short run (a new file, epochs of two shards, a lap's deletion,
// checkpoints, a clean end, a second start) on a disk that fails on purpose, at every call in turn;
// then the file is read and compared with what the run had written by then.
// `SEED=` (1) chooses what the disk loses, `CRASH_SEEDS=` (1) how many ways of losing are tried. By
// default every third call fails, with `CRASH_STRIDE=1` each: so `tools/test long` does it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/check.hpp"
#include "store/epoch_committer.hpp"
#include "store/state_file.hpp"
#include "support/crash_disk.hpp"
#include "support/seeds.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::Content;
using test::CrashDisk;
using test::DiskFault;
using test::OwnedCut;

constexpr uint64_t epochs_count = 12;
constexpr uint64_t lap_begin = 4;
constexpr uint64_t lap_end = 7;
constexpr uint64_t first_life_epochs = 9;

uint64_t first_seed() {
  return test::number_from_environment("SEED", 1);
}

uint64_t stride() {
  return test::number_from_environment("CRASH_STRIDE", 3);
}

uint64_t seeds_count() {
  return test::number_from_environment("CRASH_SEEDS", 1);
}

// Small parts and long ones, which take pages of their own.
std::string part_bytes(uint64_t epoch, uint32_t shard) {
  const size_t size = epoch % 3 == 2 ? 50'000 : 200;
  return std::to_string(epoch) + "/" + std::to_string(shard) +
         std::string(size, static_cast<char>('a' + epoch));
}

std::vector<OwnedCut> cuts_of(uint64_t epoch) {
  OwnedCut first(epoch, 0);
  OwnedCut second(epoch, 1);
  first.part(1, part_bytes(epoch, 0)).quota_class(epoch % 4, "class " + std::to_string(epoch % 4));
  second.part(1, part_bytes(epoch, 1)).part(2, "more");
  if (epoch % 2 == 0) first.put("a", "put in " + std::to_string(epoch), 1);
  if (epoch % 3 == 0) second.put("b", "put in " + std::to_string(epoch), 2);
  if (epoch % 5 == 0) second.remove("b");
  if (epoch == lap_end) {
    first.needed_from(lap_begin);
    second.needed_from(lap_begin);
  }
  return {first, second};
}

// A batch and what it points to.
class WholeBatch {
 public:
  explicit WholeBatch(uint64_t epoch) : cuts_(cuts_of(epoch)) {
    for (const OwnedCut& cut : cuts_) views_.push_back(cut.view());
    batch_ = {
        .epoch = epoch, .cuts = views_, .delete_before_epoch = views_.front().needed_from_epoch};
  }
  const Batch& batch() const noexcept { return batch_; }

 private:
  std::vector<OwnedCut> cuts_;
  std::vector<ShardCut> views_;
  Batch batch_;
};

// What the file must have after each epoch; 0: after its first start. Written by a sound disk.
std::vector<Content> make_contents(bool deletes) {
  const test::TemporaryFolder folder(test::TemporaryFolder::memory());
  const std::string path = folder.file("state");
  const auto file = StateFile::open({.path = path}).value();
  std::vector<Content> contents{test::read_content(path)};
  for (uint64_t epoch = 1; epoch <= epochs_count; ++epoch) {
    const WholeBatch whole(epoch);
    Batch batch = whole.batch();
    if (!deletes) batch.delete_before_epoch = 0;
    EXPECT_TRUE(file->commit(batch));
    contents.push_back(test::read_content(path));
  }
  return contents;
}

const Content& content_after(uint64_t epoch) {
  static const std::vector<Content> contents = make_contents(true);
  return contents.at(epoch);
}

// With the parts that the lap has superseded.
const Content& undeleted_content_after(uint64_t epoch) {
  static const std::vector<Content> contents = make_contents(false);
  return contents.at(epoch);
}

class ShortRun {
 public:
  explicit ShortRun(uint64_t seed) : disk(seed) {}
  ~ShortRun() { file.reset(); }

  StateFileOptions options() const {
    return {.path = path, .checkpoint_bytes = 100'000, .vfs = disk.vfs()};
  }

  // Until something fails.
  void live() {
    live_until(first_life_epochs);
    if (file != nullptr && file->close()) live_until(epochs_count);
    file.reset();
  }

  // As the server does: starts again when it could not, and its writer tries again and again. Until
  // everything is written, or the power fails.
  void live_on() {
    while (file == nullptr && !disk.is_without_power()) begin_life();
    if (file == nullptr) return;
    WriterStatistics statistics;
    EpochCommitter committer(*file, statistics, [this] { return base::Now{now_ns, 0}; });
    while (acknowledged < epochs_count && !disk.is_without_power()) {
      const WholeBatch batch(acknowledged + 1);
      attempted = acknowledged + 1;
      now_ns = std::max(now_ns, committer.due_ns(true));
      const auto outcome = committer.step(&batch.batch());
      for (size_t i = 0; i < failures.size(); ++i) failures[i] = statistics.failures[i].load();
      if (count_of(FailureKind::full) > 2) disk.set_room(CrashDisk::never);
      ASSERT_NE(outcome, EpochCommitter::Outcome::failed);
      if (outcome == EpochCommitter::Outcome::committed) ++acknowledged;
    }
  }

  // What a start has found must stay, acknowledged or not.
  void start_again() {
    begin_life();
    if (file != nullptr) acknowledged = std::max(acknowledged, file->last_epoch());
  }

  uint64_t count_of(FailureKind kind) const { return failures[static_cast<size_t>(kind)]; }

  // The file that the disk has after the power failed.
  void expect_one_whole_epoch() {
    file.reset();
    disk.restart();
    auto opened = StateFile::open({.path = path});
    ASSERT_TRUE(opened) << opened.error().text;
    const uint64_t epoch = (*opened)->last_epoch();
    EXPECT_GE(epoch, acknowledged) << "an acknowledged epoch is lost";
    EXPECT_LE(epoch, attempted);
    expect_content_after(epoch);
    if (epoch == epochs_count) return;
    EXPECT_TRUE((*opened)->commit(WholeBatch(epoch + 1).batch()));
    expect_content_after(epoch + 1);
  }

  // After a failed fsync the lap's end deletes nothing, and this run has no second lap.
  void expect_content_after(uint64_t epoch) {
    const Content content = test::read_content(path);
    if (count_of(FailureKind::fsync) > 0 && content == undeleted_content_after(epoch)) return;
    EXPECT_EQ(content, content_after(epoch)) << "epoch " << epoch;
  }

  CrashDisk disk;
  const test::TemporaryFolder folder{test::TemporaryFolder::memory()};
  const std::string path = folder.file("state");
  std::unique_ptr<StateFile> file;
  int64_t now_ns = 0;
  uint64_t acknowledged = 0;
  uint64_t attempted = 0;
  std::array<uint64_t, failure_kinds_count> failures{};

 private:
  void begin_life() {
    file.reset();
    auto opened = StateFile::open(options());
    if (opened) {
      file = std::move(*opened);
      return;
    }
    if (disk.is_without_power()) return;
    EXPECT_FALSE(is_final(opened.error().kind)) << opened.error().text;
    if (opened.error().kind == FailureKind::full) disk.set_room(CrashDisk::never);
  }

  void live_until(uint64_t last_epoch) {
    begin_life();
    while (file != nullptr && acknowledged < last_epoch) {
      const WholeBatch batch(acknowledged + 1);
      attempted = acknowledged + 1;
      if (!file->commit(batch.batch())) return;
      acknowledged = attempted;
      if (!file->tidy()) return;
    }
  }
};

// The number of a disk's calls in a run without a failure.
struct Counts {
  uint64_t changes = 0;
  uint64_t calls = 0;
  uint64_t syncs = 0;
  uint64_t grown_bytes = 0;
};

Counts counts_of(void (ShortRun::*live)()) {
  ShortRun run(0);
  (run.*live)();
  EXPECT_EQ(run.acknowledged, epochs_count);
  return {run.disk.changes_count(), run.disk.calls_count(), run.disk.syncs_count(),
          run.disk.grown_bytes()};
}

// Plays a part of a test with each seed; SEED= and CRASH_STRIDE=1 repeat a failure.
template <typename Play>
void with_each(uint64_t count, Play play) {
  for (uint64_t seed = first_seed(); seed < first_seed() + seeds_count(); ++seed) {
    for (uint64_t i = seed % stride(); i < count; i += stride()) {
      SCOPED_TRACE("SEED=" + std::to_string(seed) + ", number " + std::to_string(i));
      play(seed * 1'000'003 + i, i);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Crash, loses_nothing_when_the_power_fails_at_any_call) {
  const uint64_t changes_count = counts_of(&ShortRun::live).changes;
  ASSERT_GT(changes_count, 100u);
  with_each(changes_count + 1, [](uint64_t seed, uint64_t change) {
    ShortRun run(seed);
    run.disk.fail_power_at(change);
    run.live();
    run.expect_one_whole_epoch();
  });
}

TEST(Crash, loses_nothing_when_the_power_fails_again_at_the_next_start) {
  const uint64_t changes_count = counts_of(&ShortRun::live).changes;
  with_each(changes_count, [](uint64_t seed, uint64_t change) {
    ShortRun run(seed);
    run.disk.fail_power_at(change);
    run.live();
    run.disk.restart();
    run.disk.fail_power_at(run.disk.changes_count() + seed % 10);
    run.start_again();
    run.expect_one_whole_epoch();
  });
}

TEST(Crash, writes_everything_after_an_error_at_any_call) {
  const uint64_t calls_count = counts_of(&ShortRun::live_on).calls;
  for (const uint64_t errors : {1, 3}) {
    with_each(calls_count, [errors](uint64_t seed, uint64_t call) {
      ShortRun run(seed);
      run.disk.fail(DiskFault::io, call, errors);
      run.live_on();
      EXPECT_EQ(run.acknowledged, epochs_count);
      run.expect_one_whole_epoch();
    });
  }
}

TEST(Crash, never_takes_an_error_at_the_start_for_damage) {
  ShortRun run(first_seed());
  run.live();
  const uint64_t first = run.disk.calls_count();
  run.start_again();
  const uint64_t calls_count = run.disk.calls_count() - first;
  run.file.reset();
  ASSERT_GT(calls_count, 10u);
  for (uint64_t call = 0; call < calls_count; ++call) {
    run.disk.fail(DiskFault::io, run.disk.calls_count() + call);
    auto opened = StateFile::open(run.options());
    if (opened) continue;
    EXPECT_FALSE(is_final(opened.error().kind)) << opened.error().text;
  }
}

TEST(Crash, writes_everything_when_the_disk_may_be_written_again) {
  const uint64_t calls_count = counts_of(&ShortRun::live_on).calls;
  uint64_t seen = 0;
  with_each(calls_count / 10, [&seen](uint64_t seed, uint64_t tenth) {
    ShortRun run(seed);
    run.disk.fail(DiskFault::readonly, tenth * 10, 20);
    run.live_on();
    EXPECT_EQ(run.acknowledged, epochs_count);
    seen += run.count_of(FailureKind::readonly);
    run.expect_one_whole_epoch();
  });
  EXPECT_GT(seen, 20u);
}

TEST(Crash, writes_everything_when_a_full_disk_has_room_again) {
  const uint64_t grown_bytes = counts_of(&ShortRun::live_on).grown_bytes;
  constexpr uint64_t step_bytes = 1'500;
  uint64_t seen = 0;
  with_each(grown_bytes / step_bytes, [&seen](uint64_t seed, uint64_t i) {
    ShortRun run(seed);
    run.disk.set_room(i * step_bytes + seed % step_bytes);
    run.live_on();
    EXPECT_EQ(run.acknowledged, epochs_count);
    seen += run.count_of(FailureKind::full);
    run.expect_one_whole_epoch();
  });
  EXPECT_GT(seen, 100u);
}

// The disk confirms later writes, but has lost what it did not confirm.
TEST(Crash, loses_nothing_when_the_power_fails_some_time_after_an_fsync_has_failed) {
  const uint64_t syncs_count = counts_of(&ShortRun::live_on).syncs;
  ASSERT_GT(syncs_count, 20u);
  for (const uint64_t errors : {1, 2}) {
    with_each(syncs_count, [errors](uint64_t seed, uint64_t sync) {
      for (uint64_t later = seed % 4; later < 40; later += 4) {
        SCOPED_TRACE("power fails " + std::to_string(later) + " changes later");
        ShortRun run(seed + later * 7'919);
        run.disk.fail(DiskFault::fsync, sync, errors);
        run.disk.fail_power_after_fault(later);
        run.live_on();
        run.expect_one_whole_epoch();
        if (::testing::Test::HasFailure()) return;
      }
    });
  }
}

}  // namespace
}  // namespace sluice::store
