// Goal: a file of an older version gets the present one with all that it has, or stays as it is,
// beside a copy of what it was. Method: a version 0 that never was, and two steps from it; real
// files; a disk that loses its power or reports an error at every call in turn.
#include "store/migration.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "store/schema.hpp"
#include "store/state_file.hpp"
#include "support/crash_disk.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::Content;
using test::CrashDisk;
using test::OwnedCut;

// Version 0 had parts without a kind, and quotas in a table of another name.
constexpr std::array<MigrationStep, 2> made_up_steps{
    {{0,
      "ALTER TABLE quota RENAME TO run_time_quota;"
      "CREATE TABLE new_part(number INTEGER PRIMARY KEY, epoch INTEGER NOT NULL,"
      " shard INTEGER NOT NULL, kind INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;"
      "INSERT INTO new_part SELECT number, epoch, shard, 0, bytes FROM part;"
      "DROP TABLE part; ALTER TABLE new_part RENAME TO part;"},
     {1, "UPDATE part SET kind = 1 WHERE kind = 0; INSERT INTO meta VALUES('step', '1 to 2')"}}};

void write_version_0(const std::string& path, bool has_log) {
  {
    const auto file = StateFile::open({.path = path}).value();
    const std::vector<MetaValue> meta{{"seed", "17"}};
    file->set_meta(meta);
    ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a").put("n", "{}", 5)));
    ASSERT_TRUE(
        commit_one(*file, OwnedCut(2, 1).part(1, std::string(40'000, 'b')).quota_class(7, "[]")));
    ASSERT_TRUE(file->close());
  }
  Database database = Database::open(path, Access::write, nullptr).value();
  if (!has_log) database.checkpoint_on_close();
  ASSERT_TRUE(
      database.execute("BEGIN; ALTER TABLE run_time_quota RENAME TO quota;"
                       "ALTER TABLE part DROP COLUMN kind; PRAGMA user_version=0; COMMIT"));
}

const Content migrated{.parts = {{2, 1, 1, std::string(40'000, 'b')}, {1, 0, 1, "a"}},
                       .quotas = {{"n", "{}", 5}},
                       .classes = {{7, "[]"}},
                       .meta = {{"seed", "17"}, {"step", "1 to 2"}}};

uint32_t version_of(const std::string& path) {
  Database database = Database::open(path, Access::read, nullptr).value();
  return read_version(database).value();
}

class MigrationTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<StateFile>> open(const char* vfs = nullptr) {
    return StateFile::open({.path = path, .vfs = vfs, .migrations = made_up_steps});
  }
  Result<void> run(const std::vector<MigrationStep>& others) {
    Database database = Database::open(path, Access::write, nullptr).value();
    return migrate(database, {.path = path, .steps = others});
  }
  void expect_copy() {
    EXPECT_EQ(version_of(copy), 0u);
    Database database = Database::open(copy, Access::read, nullptr).value();
    EXPECT_EQ(database.integer("SELECT count(*) FROM part").value(), 2);
    EXPECT_EQ(database.text("SELECT quota FROM quota").value(), "{}");
  }
  // It was not migrated, whatever was done.
  void expect_old() {
    EXPECT_EQ(version_of(path), 0u);
    Database database = Database::open(path, Access::read, nullptr).value();
    EXPECT_EQ(database.integer("SELECT sum(length(bytes)) FROM part").value(), 40'001);
  }

  const test::TemporaryFolder folder{test::TemporaryFolder::memory()};
  const std::string path = folder.file("state");
  const std::string copy = path + ".v0";
};

TEST_F(MigrationTest, takes_a_made_up_version_through_all_steps) {
  for (const bool has_log : {false, true}) {
    write_version_0(path, has_log);
    {
      const auto file = open();
      ASSERT_TRUE(file) << file.error().text;
      EXPECT_EQ((*file)->last_epoch(), 2u);
      EXPECT_EQ(test::read_content(path), migrated);
      expect_copy();
      ASSERT_TRUE(commit_one(**file, OwnedCut(3, 0).part(2, "c")));
    }
    EXPECT_EQ(version_of(path), schema_version);
    EXPECT_TRUE(open()) << "and has nothing to do the next time";
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      std::filesystem::remove(entry.path());
    }
  }
}

TEST_F(MigrationTest, brings_version_1_to_the_present_one) {
  {
    const auto file = StateFile::open({.path = path}).value();
    ASSERT_TRUE(commit_one(*file, OwnedCut(4, 0).part(1, "a").put("n", "{}", 5)));
    ASSERT_TRUE(file->close());
  }
  ASSERT_TRUE(Database::open(path, Access::write, nullptr)->execute("PRAGMA user_version=1"));
  const Content before = test::read_content(path);
  EXPECT_EQ(version_of(path), 1u) << "a reader changes nothing";
  const auto file = StateFile::open({.path = path});
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(version_of(path), 2u);
  EXPECT_EQ(test::read_content(path), before);
  EXPECT_EQ(version_of(path + ".v1"), 1u);
  EXPECT_EQ(test::read_content(path + ".v1"), before);
}

TEST_F(MigrationTest, refuses_a_version_that_no_step_begins_with) {
  write_version_0(path, true);
  const auto refused = StateFile::open({.path = path});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::damaged);
  expect_old();
  EXPECT_FALSE(std::filesystem::exists(copy));
}

TEST_F(MigrationTest, gives_the_copy_the_permissions_of_the_file) {
  write_version_0(path, false);
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(open());
  struct stat status {};
  ASSERT_EQ(::stat(copy.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(MigrationTest, overwrites_no_copy_of_an_earlier_migration) {
  write_version_0(path, true);
  test::write_file(copy, "mine");
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::exists) << refused.error().text;
  EXPECT_TRUE(refused.error().text.starts_with(copy)) << refused.error().text;
  EXPECT_EQ(test::read_file(copy), "mine");
  expect_old();
}

TEST_F(MigrationTest, goes_on_with_the_copy_of_a_start_that_died) {
  write_version_0(path, true);
  const Result<void> failed = run({{0, ""}, {1, "no SQL"}});
  ASSERT_FALSE(failed);
  expect_old();
  expect_copy();
  const std::string before = test::read_file(copy);
  ASSERT_TRUE(open());
  EXPECT_EQ(test::read_content(path), migrated);
  EXPECT_EQ(test::read_file(copy), before);
}

TEST_F(MigrationTest, migrates_nothing_when_a_table_would_be_missing) {
  write_version_0(path, true);
  const Result<void> failed = run({{0, ""}, {1, ""}});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, FailureKind::damaged);
  expect_old();
}

TEST_F(MigrationTest, migrates_no_file_with_a_damaged_part) {
  {
    const auto file = StateFile::open({.path = path}).value();
    ASSERT_TRUE(commit_one(*file, OwnedCut(4, 0).part(1, "sound").part(1, "broken")));
  }
  ASSERT_TRUE(Database::open(path, Access::write, nullptr)->execute("PRAGMA user_version=1"));
  const auto verify = [](const StoredPart& part) -> std::optional<std::string> {
    if (test::as_text(part.bytes) != "broken") return std::nullopt;
    return "it is broken";
  };
  const auto refused = StateFile::open({.path = path, .verify = verify});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::damaged);
  EXPECT_EQ(refused.error().detail, "part 2: it is broken");
  EXPECT_EQ(version_of(path), 1u);
  EXPECT_FALSE(std::filesystem::exists(path + ".v1"));
}

TEST_F(MigrationTest, leaves_the_old_or_the_new_file_when_the_power_fails_at_any_call) {
  for (const bool has_log : {false, true}) {
    bool is_whole = false;
    uint64_t change = 0;
    for (; !is_whole; ++change) {
      SCOPED_TRACE("change " + std::to_string(change) + (has_log ? ", with" : ", without") +
                   " a log");
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        std::filesystem::remove(entry.path());
      }
      write_version_0(path, has_log);
      CrashDisk disk(change * 31 + 1);
      disk.fail_power_at(change);
      is_whole = open(disk.vfs()).has_value() && !disk.is_without_power();
      disk.restart();
      if (std::filesystem::exists(copy)) expect_copy();
      const auto file = open();
      ASSERT_TRUE(file) << file.error().text;
      EXPECT_EQ(test::read_content(path), migrated);
      expect_copy();
      EXPECT_FALSE(std::filesystem::exists(copy + ".unfinished"));
      ASSERT_LT(change, 1'000u);
    }
    EXPECT_GT(change, 15u);
  }
}

TEST_F(MigrationTest, leaves_the_old_file_when_the_disk_is_full) {
  bool is_whole = false;
  uint64_t failures = 0;
  for (uint64_t room = 0; !is_whole; room += 5'000) {
    SCOPED_TRACE(room);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      std::filesystem::remove(entry.path());
    }
    write_version_0(path, true);
    CrashDisk disk(room);
    disk.set_room(room);
    const auto refused = open(disk.vfs());
    is_whole = refused.has_value();
    if (is_whole) break;
    EXPECT_EQ(refused.error().kind, FailureKind::full) << refused.error().text;
    ++failures;
    expect_old();
    disk.set_room(CrashDisk::never);
    ASSERT_TRUE(open(disk.vfs()));
    EXPECT_EQ(test::read_content(path), migrated);
    ASSERT_LT(failures, 1'000u);
  }
  EXPECT_GT(failures, 20u);
}

}  // namespace
}  // namespace sluice::store
