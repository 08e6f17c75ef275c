// Goal:   a start finds the seeds, the last time and the subjects of the start before, and refuses
//         a file that lacks any of it, with a line that names the file, the cause and the cure.
// Method: real files with the parts of stores, or with parts that no server writes.
#include "server/stored_file.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "shard/key_shard.hpp"
#include "state/part_builder.hpp"
#include "state/window_parts.hpp"
#include "store/state_file.hpp"
#include "tests/support/state_parts.hpp"
#include "tests/support/stored_state.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/quota/store_driver.hpp"
#include "tests/unit/server/small_store.hpp"

namespace sluice::server {
namespace {

using test::OwnedCut;

// What a start says of such a file.
std::string damage_text(const std::string& path, const std::string& cause) {
  return "--state " + path + ": damaged: " + cause +
         "; restore a backup, or start with another file; `sluicegate state recover` saves what is "
         "sound";
}

class StoredFileTest : public testing::Test {
 protected:
  void open() {
    auto file = store::StateFile::open({.path = path_});
    ASSERT_TRUE(file) << file.error().text;
    file_ = std::move(*file);
  }
  void SetUp() override {
    open();
    set_meta({{name_seed_key, "11"}, {routing_seed_key, "22"}, {shards_key, "9"}});
  }
  void set_meta(const std::vector<store::MetaValue>& values) {
    file_->set_meta(values);
    ASSERT_TRUE(test::commit_one(*file_, OwnedCut(file_->last_epoch() + 1, 0)));
    const std::string path = file_->path();
    file_ = nullptr;  // to begin with the first epoch again: there is no part
    file_ = std::move(store::StateFile::open({.path = path}).value());
  }
  // A part without records, of a shard that has made its last call at this order.
  static std::string part(const state::PartHeader& header) {
    state::PartBuilder builder({.subjects_max = 10, .name_bytes_max = 10, .reservations_max = 10});
    builder.finish(header);
    return test::as_text(builder.parts()[0]);
  }
  static std::string part(uint64_t epoch, uint16_t shard, uint16_t shards, int64_t state_ns = 5) {
    return part({.epoch = epoch,
                 .shard = shard,
                 .shards = shards,
                 .time = {.state_ns = state_ns, .machine = {.wall_ns = state_ns + 1}},
                 .calendar_wall_ns = 4,
                 .order = 100U + shard,
                 .reset_all_order = 10U + shard});
  }
  void commit(uint64_t epoch, const std::vector<std::string>& parts) {
    OwnedCut cut(epoch, 0);
    for (const std::string& each : parts) cut.part(1, each);
    const store::Result<void> done = test::commit_one(*file_, cut);
    ASSERT_TRUE(done) << done.error().text;
  }

  StoredFile read() const { return StoredFile(path_); }
  void expect_refused(const std::string& cause) const {
    try {
      read();
      FAIL() << "it is not refused: " << cause;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), damage_text(path_, cause));
    }
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("state");
  std::unique_ptr<store::StateFile> file_;
};

TEST_F(StoredFileTest, a_new_file_has_nothing) {
  const std::string path = folder_.file("another");
  ASSERT_TRUE(store::StateFile::open({.path = path}));
  const StoredFile stored(path);
  EXPECT_FALSE(stored.seeds());
  EXPECT_FALSE(stored.last_time());
  EXPECT_EQ(stored.shards_count(), 0U);
}

TEST_F(StoredFileTest, finds_seeds_before_there_is_a_part) {
  const StoredFile stored = read();
  ASSERT_TRUE(stored.seeds());
  EXPECT_EQ(stored.seeds()->name_seed, 11U);
  EXPECT_EQ(stored.seeds()->routing_seed, 22U);
  EXPECT_FALSE(stored.last_time());
  EXPECT_EQ(stored.shards_count(), 0U) << "of parts, not what the last start wanted";
}

TEST_F(StoredFileTest, finds_the_last_time_of_the_newest_epoch) {
  commit(3, {part(3, 0, 2, 900), part(3, 1, 2, 901)});
  for (const bool is_in_order : {false, true}) {
    const uint64_t epoch = is_in_order ? 5 : 4;
    commit(epoch, {part(epoch, 0, 2, is_in_order ? 50 : 52), part(epoch, 1, 2, 51)});
    const StoredFile stored = read();
    ASSERT_TRUE(stored.last_time());
    EXPECT_EQ(stored.last_time()->state_ns, is_in_order ? 51 : 52);
    EXPECT_EQ(stored.last_time()->machine.wall_ns, is_in_order ? 52 : 53);
    EXPECT_EQ(stored.shards_count(), 2U);
  }
}

TEST_F(StoredFileTest, a_shard_may_have_several_parts_of_an_epoch) {
  commit(4, {part(4, 0, 2), part(4, 0, 2), part(4, 1, 2)});
  EXPECT_EQ(read().shards_count(), 2U);
}

TEST_F(StoredFileTest, older_epochs_may_be_of_another_number_of_shards) {
  commit(3, {part(3, 0, 1)});
  commit(4, {part(4, 0, 2), part(4, 1, 2)});
  EXPECT_EQ(read().shards_count(), 2U);
}

TEST_F(StoredFileTest, refuses_seeds_that_are_no_numbers) {
  for (const char* value : {"", "x", "1x", "-1", "99999999999999999999"}) {
    set_meta({{name_seed_key, value}});
    expect_refused("name_seed is no number");
  }
  set_meta({{name_seed_key, "18446744073709551615"}, {routing_seed_key, "0x1"}});
  expect_refused("routing_seed is no number");
  set_meta({{routing_seed_key, "1"}});
  EXPECT_EQ(read().seeds()->name_seed, UINT64_MAX);
}

TEST_F(StoredFileTest, refuses_parts_without_the_seeds_of_their_hashes) {
  const std::string path = folder_.file("another");
  file_ = nullptr;
  auto file = store::StateFile::open({.path = path});
  ASSERT_TRUE(file);
  file_ = std::move(*file);
  set_meta({{routing_seed_key, "22"}});
  EXPECT_FALSE(StoredFile(path).seeds()) << "both or none";
  commit(1, {part(1, 0, 1)});
  try {
    StoredFile stored(path);
    FAIL() << "it is not refused";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("it lacks the seeds of its hashes"), std::string::npos)
        << error.what();
  }
}

TEST_F(StoredFileTest, refuses_an_epoch_that_lacks_a_shard) {
  commit(3, {part(3, 0, 2), part(3, 1, 2)});
  commit(4, {part(4, 1, 2)});
  expect_refused("the newest epoch lacks the parts of a shard");
}

TEST_F(StoredFileTest, refuses_parts_of_one_epoch_that_differ) {
  commit(4, {part(4, 0, 1), part(4, 1, 2)});
  expect_refused("parts of one epoch differ");
}

TEST_F(StoredFileTest, refuses_a_part_that_is_none) {
  commit(4, {part(4, 0, 1), "no part"});
  expect_refused("part 2: it is not a part of a state");
}

TEST_F(StoredFileTest, says_why_a_file_cannot_be_read) {
  file_ = nullptr;
  test::write_file(path_, "no database at all, and longer than the header of one would have been");
  try {
    read();
    FAIL() << "it is not refused";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("--state " + path_), 0U) << error.what();
  }
}

// --------------------------------------------------------------------------------- restoring

class RestoringFile : public StoredFileTest {
 protected:
  static constexpr const quota::Options& options = small_store;
  // What has changed in the store, as a part of this epoch.
  void commit_store(quota::StoreDriver& driver, uint64_t epoch, uint16_t shards = 1) {
    state::PartBuilder builder(
        {.subjects_max = 100, .name_bytes_max = options.name_bytes_max, .reservations_max = 100});
    driver.store.begin_cut(builder, {.epoch = epoch});
    while (driver.store.hand_over(1'000)) {
    }
    const quota::CutFacts facts = driver.store.cut_facts();
    builder.finish({.epoch = epoch,
                    .shards = shards,
                    .time = {.state_ns = driver.now().monotonic_ns},
                    .calendar_wall_ns = facts.calendar_wall_ns,
                    .order = facts.order,
                    .reset_all_order = facts.reset_all_order});
    OwnedCut cut(epoch, 0);
    for (const auto& each : builder.parts()) cut.part(1, test::as_text(each));
    for (const auto& each : builder.quota_classes()) cut.quota_class(each.id, each.quota);
    for (const auto& each : builder.quota_changes()) {
      if (each.quota) {
        cut.put(each.name, *each.quota, each.wall_ms);
      } else {
        cut.remove(each.name);
      }
    }
    const store::Result<void> done = test::commit_one(*file_, cut);
    ASSERT_TRUE(done) << done.error().text;
  }
  static void record(quota::StoreDriver& driver, const std::string& name, uint64_t requests) {
    driver.record({name}, {.requests = requests});
  }
  std::string failure(quota::StoreDriver& driver) const {
    try {
      read().restore(driver.store, driver.now());
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(RestoringFile, a_store_goes_on_with_its_quotas_and_their_usage) {
  quota::StoreDriver before(options);
  for (const char* name : {"a", "b", "removed"}) before.put(name, {quota::rpm(100)});
  record(before, "a", 3);
  commit_store(before, 1);
  record(before, "a", 4);
  record(before, "b", 5);
  before.remove("removed");
  commit_store(before, 2);
  record(before, "b", 50);  // and the server ends
  quota::StoreDriver after(options);
  const quota::Restored restored = read().restore(after.store, after.now());
  EXPECT_EQ(restored.subjects, 2U);
  EXPECT_EQ(after.used("a", "rpm"), 7U);
  EXPECT_EQ(after.used("b", "rpm"), 5U);
  EXPECT_EQ(after.limit("a", "rpm").amount, 100U);
  EXPECT_EQ(after.row("removed").limits_count, 0U);
}

// The first cut with another number of shards has everything; quotas are in a table of their own.
TEST_F(RestoringFile, leaves_out_older_parts_of_another_number_of_shards) {
  quota::StoreDriver before(options);
  before.put("a", {quota::rpm(100)});
  record(before, "a", 3);
  commit_store(before, 1, 2);
  quota::StoreDriver next(options);
  next.put("b", {quota::rpm(100)});
  record(next, "b", 4);
  commit_store(next, 2);
  quota::StoreDriver after(options);
  read().restore(after.store, after.now());
  EXPECT_EQ(after.used("a", "rpm"), 0U);
  EXPECT_EQ(after.used("b", "rpm"), 4U);
}

TEST_F(RestoringFile, refuses_an_older_part_that_is_damaged) {
  quota::StoreDriver before(options);
  before.put("a", {quota::rpm(100)});
  commit(1, {"no part"});
  commit_store(before, 2);
  quota::StoreDriver after(options);
  EXPECT_EQ(failure(after), damage_text(path_, "part 1: it is not a part of a state"));
}

TEST_F(RestoringFile, refuses_a_record_that_is_damaged) {
  const std::string sound = part(1, 0, 1);
  std::string broken = sound + "a record that has no sense";
  const auto bytes = test::sealed(test::as_bytes(broken));
  commit(1, {test::as_text(bytes)});
  commit(2, {part(2, 0, 1)});
  quota::StoreDriver after(options);
  EXPECT_EQ(failure(after), damage_text(path_, "one of its records has an impossible value"));
}

TEST_F(RestoringFile, refuses_a_subject_of_a_class_that_is_not_there) {
  quota::StoreDriver before(options);
  before.put("a", {quota::rpm(100)});
  state::PartBuilder builder({.subjects_max = 10, .name_bytes_max = 10, .reservations_max = 10});
  builder.append(state::SubjectRecord{.name = "a", .quota_class = 77});
  builder.finish({.epoch = 1, .order = 1});
  commit(1, {test::as_text(builder.parts()[0])});
  quota::StoreDriver after(options);
  const std::string text = failure(after);
  EXPECT_EQ(text.find("--state " + path_ + ": damaged: "), 0U) << text;
  EXPECT_NE(text.find("; restore a backup"), std::string::npos) << text;
}

TEST_F(StoredFileTest, refuses_parts_of_another_file) {
  state::PartHeader header{
      .epoch = 3, .time = {.state_ns = 5}, .calendar_wall_ns = 4, .order = 100};
  header.file_tag = tag_of({.name_seed = 11, .routing_seed = 22});
  commit(3, {part(header)});
  EXPECT_EQ(read().shards_count(), 1U);
  header.epoch = 4;
  header.file_tag = tag_of({.name_seed = 12, .routing_seed = 22});
  commit(4, {part(header)});
  expect_refused("the FILE-wal beside it is another file's");
}

// ---- windows of keys ---------------------------------------------------------------------------

class StoredWindowsTest : public StoredFileTest {
 protected:
  static std::string windows(uint64_t epoch, uint16_t shard, uint16_t shards,
                             const std::vector<std::pair<const char*, uint32_t>>& approved,
                             int64_t window_ms = 60'000) {
    state::WindowParts parts(10, 100);
    for (const auto& [key, permits] : approved) {
      const limiter::Policy policy{.window_ms = window_ms};
      parts.append({.key = key,
                    .end_ms = std::min<int64_t>(window_ms, 50'000),
                    .approved = permits,
                    .policy = policy,
                    .rules_policy = policy});
    }
    parts.finish({.epoch = epoch,
                  .shard = shard,
                  .shards = shards,
                  .time = {.state_ns = 5 * base::ns_per_ms},
                  .calendar_wall_ns = 4,
                  .order = 100});
    return test::as_text(parts.parts()[0]);
  }
  void commit_windows(uint64_t epoch, uint16_t shards, const std::vector<std::string>& parts) {
    OwnedCut cut(epoch, 0);
    for (uint16_t shard = 0; shard < shards; ++shard) cut.part(1, part(epoch, shard, shards));
    for (const std::string& each : parts) cut.part(2, each);
    ASSERT_TRUE(test::commit_one(*file_, cut));
  }
  // Of a shard that owns the keys that begin with its number.
  RestoredWindows restore(uint32_t shard, uint32_t shards) {
    const OwnKeys own{.shard = shard,
                      .shards = shards,
                      .is_own =
                          [shard, shards](std::string_view key) {
                            return static_cast<uint32_t>(key.front() - '0') % shards == shard;
                          },
                      .is_of_other_node = is_of_other_node_};
    return read().restore(keys_, own, now_);
  }
  uint32_t approved(const char* key) {
    const auto state = keys_.inspect(key, now_);
    return state ? state->approved : 0;
  }

  const base::Now now_{.monotonic_ns = 6 * base::ns_per_ms, .wall_ns = 0};
  shard::KeyShard keys_{{.keys_max = 2}};
  std::function<bool(std::string_view)> is_of_other_node_;
};

TEST_F(StoredWindowsTest, restores_the_newest_record_of_a_key) {
  commit_windows(3, 1, {windows(3, 0, 1, {{"0", 1}, {"1", 2}})});
  commit_windows(4, 1, {windows(4, 0, 1, {{"1", 3}})});
  const RestoredWindows restored = restore(0, 1);
  EXPECT_EQ(restored.count, 2U);
  EXPECT_EQ(restored.left_out, 0U);
  EXPECT_EQ(approved("0"), 1U);
  EXPECT_EQ(approved("1"), 3U);
}

TEST_F(StoredWindowsTest, restores_those_of_all_shards_where_their_number_is_another) {
  commit_windows(3, 2, {windows(3, 0, 2, {{"0", 1}, {"2", 2}}), windows(3, 1, 2, {{"3", 4}})});
  EXPECT_EQ(restore(0, 3).count, 2U);
  EXPECT_EQ(approved("0"), 1U);
  EXPECT_EQ(approved("3"), 4U);
  EXPECT_EQ(approved("2"), 0U) << "another shard's";
}

TEST_F(StoredWindowsTest, restores_no_older_record_of_a_key_whose_newest_is_over) {
  commit_windows(3, 1, {windows(3, 0, 1, {{"0", 1}})});
  commit_windows(4, 1, {windows(4, 0, 1, {{"0", 2}}, 1)});
  EXPECT_EQ(restore(0, 1).count, 0U);
}

TEST_F(StoredWindowsTest, says_how_many_had_no_room) {
  commit_windows(3, 1, {windows(3, 0, 1, {{"0", 1}, {"1", 2}, {"2", 3}, {"3", 4}})});
  const RestoredWindows restored = restore(0, 1);
  EXPECT_EQ(restored.count, 2U);
  EXPECT_EQ(restored.left_out, 2U);
}

TEST_F(StoredWindowsTest, leaves_out_keys_that_other_nodes_own_now) {
  commit_windows(3, 1, {windows(3, 0, 1, {{"0", 1}, {"1", 2}})});
  commit_windows(4, 1, {windows(4, 0, 1, {{"1", 3}})});
  is_of_other_node_ = [](std::string_view key) { return key == "1"; };
  const RestoredWindows restored = restore(0, 1);
  EXPECT_EQ(restored.count, 1U);
  EXPECT_EQ(restored.of_other_nodes, 1U) << "once, however many records it has";
  EXPECT_EQ(approved("1"), 0U);
}

TEST_F(StoredWindowsTest, refuses_a_damaged_part) {
  commit_windows(3, 1, {"no part"});
  try {
    restore(0, 1);
    FAIL() << "it is not refused";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("damaged: part "), std::string::npos) << error.what();
  }
}

TEST_F(StoredWindowsTest, are_not_taken_for_quotas) {
  commit_windows(3, 1, {windows(3, 0, 1, {{"0", 1}})});
  EXPECT_EQ(read().shards_count(), 1U);
  quota::StoreDriver driver;
  EXPECT_EQ(read().restore(driver.store, now_).subjects, 0U);
}

}  // namespace
}  // namespace sluice::server
