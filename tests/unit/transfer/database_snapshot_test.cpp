// Goal: a database is read with its log, and neither it nor its folder changes. Method: databases
// of SQLite itself, in each of its modes, copied while their writer is open.
#include "transfer/database_snapshot.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::transfer {
namespace {

class DatabaseSnapshotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TMPDIR", temporary.path().c_str(), 1);
    test::write_text(written, "");
    writer = store::Database::open(written, store::Access::write, nullptr).value();
  }
  void TearDown() override {
    EXPECT_TRUE(test::names_in(temporary.path()).empty()) << "a copy was left behind";
    ::unsetenv("TMPDIR");
  }

  void run(const std::string& sql) {
    const auto done = writer.execute(sql);
    ASSERT_TRUE(done) << done.error().text;
  }
  // As a crash leaves the files.
  void copy_to_path() {
    for (const char* suffix : {"", "-wal", "-journal"}) {
      if (!std::filesystem::exists(written + suffix)) continue;
      std::filesystem::copy_file(written + suffix, path + suffix,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    before = contents();
  }
  std::vector<std::string> contents() const {
    std::vector<std::string> contents = test::names_in(folder.path());
    const size_t count = contents.size();
    for (size_t i = 0; i < count; ++i)
      contents.push_back(test::file_text(folder.file(contents[i])));
    return contents;
  }
  // How many rows there are; the files must stay as they are.
  int64_t rows() {
    Complained<DatabaseSnapshot> snapshot = DatabaseSnapshot::open(path);
    EXPECT_TRUE(snapshot) << test::lines_of(snapshot);
    const int64_t count = snapshot->database().integer("SELECT count(*) FROM t").value();
    EXPECT_TRUE(snapshot->check_unchanged());
    EXPECT_EQ(contents(), before);
    return count;
  }

  const test::TemporaryFolder temporary;
  const test::TemporaryFolder origin;
  const test::TemporaryFolder folder;
  const std::string written = origin.file("db");
  const std::string path = folder.file("a b%20?x#y.db");
  store::Database writer;
  std::vector<std::string> before;
};

TEST_F(DatabaseSnapshotTest, reads_a_file_without_log) {
  run("CREATE TABLE t(n); INSERT INTO t VALUES(1),(2)");
  copy_to_path();
  EXPECT_EQ(rows(), 2);
}

TEST_F(DatabaseSnapshotTest, reads_a_file_in_wal_mode_without_log) {
  run("PRAGMA journal_mode=WAL; CREATE TABLE t(n); INSERT INTO t VALUES(1),(2)");
  ASSERT_TRUE(writer.checkpoint_truncate().value());
  copy_to_path();
  EXPECT_EQ(rows(), 2);
}

TEST_F(DatabaseSnapshotTest, reads_what_only_the_log_has) {
  run("PRAGMA journal_mode=WAL; CREATE TABLE t(n); INSERT INTO t VALUES(1)");
  ASSERT_TRUE(writer.checkpoint_truncate().value());
  run("INSERT INTO t VALUES(2),(3)");
  copy_to_path();
  EXPECT_EQ(rows(), 3);
}

TEST_F(DatabaseSnapshotTest, leaves_out_what_a_crash_has_not_committed) {
  run("CREATE TABLE t(n, x); INSERT INTO t VALUES(1, zeroblob(100000))");
  // Changed pages do not fit, so they are in the file before the commit.
  run("PRAGMA cache_size=1; BEGIN; DELETE FROM t; INSERT INTO t VALUES(1, zeroblob(50000)),(2, "
      "zeroblob(50000)),(3, zeroblob(50000))");
  copy_to_path();
  ASSERT_TRUE(std::filesystem::exists(path + "-journal"));
  EXPECT_EQ(rows(), 1);
}

TEST_F(DatabaseSnapshotTest, notices_a_change_by_its_writer) {
  run("CREATE TABLE t(n)");
  copy_to_path();
  const Complained<DatabaseSnapshot> snapshot = DatabaseSnapshot::open(path);
  ASSERT_TRUE(snapshot) << test::lines_of(snapshot);
  EXPECT_TRUE(snapshot->check_unchanged());
  test::write_text(path + "-wal", "x");
  EXPECT_EQ(test::lines_of(snapshot->check_unchanged()),
            "changes while it is read: stop the program that writes it, and try again\n");
}

TEST_F(DatabaseSnapshotTest, refuses_the_log_of_another_file) {
  run("CREATE TABLE t(n)");
  copy_to_path();
  test::write_text(path + "-wal", "x");
  EXPECT_EQ(test::lines_of(DatabaseSnapshot::open(path)),
            "the FILE-wal beside it is of another file: move that away\n");
}

TEST_F(DatabaseSnapshotTest, refuses_what_is_no_database_or_too_large) {
  test::write_text(path, "quotas: {}\n");
  EXPECT_EQ(test::lines_of(DatabaseSnapshot::open(path)), "is no SQLite database\n");
  EXPECT_EQ(test::lines_of(DatabaseSnapshot::open(folder.file("none"))),
            "cannot be opened: No such file or directory\n");
  run("CREATE TABLE t(n)");
  copy_to_path();
  test::write_text(path + "-wal", "x");
  std::filesystem::resize_file(path + "-wal", go_ratelimit_file_bytes_max);
  EXPECT_EQ(test::lines_of(DatabaseSnapshot::open(path)), "is larger than 256 MiB\n");
}

TEST_F(DatabaseSnapshotTest, needs_a_folder_for_copies) {
  run("PRAGMA journal_mode=WAL; CREATE TABLE t(n)");
  copy_to_path();
  ::setenv("TMPDIR", folder.file("none").c_str(), 1);
  EXPECT_EQ(test::lines_of(DatabaseSnapshot::open(path)),
            "no folder for a temporary copy: No such file or directory\n");
}

}  // namespace
}  // namespace sluice::transfer
