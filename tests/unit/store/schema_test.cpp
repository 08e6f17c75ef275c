// Goal: a new file is whole at once; a file that is not ours is refused and left as it is.
// Method: real files; SQLite's header is changed byte by byte.
#include "store/schema.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

class SchemaTest : public ::testing::Test {
 protected:
  void create() {
    const auto done = create_file(path, nullptr);
    ASSERT_TRUE(done) << done.error().text;
  }

  // The file must be refused for this reason, and stay as it is.
  void expect_refused(FailureKind kind) {
    const std::string before = test::read_file(path);
    const auto refused = check_header(path);
    ASSERT_FALSE(refused);
    EXPECT_EQ(failure_name(refused.error().kind), failure_name(kind)) << refused.error().text;
    EXPECT_EQ(test::read_file(path), before);
  }

  void change_byte(size_t at, char byte) {
    std::string bytes = test::read_file(path);
    bytes.at(at) = byte;
    test::write_file(path, bytes);
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
};

TEST_F(SchemaTest, makes_a_file_with_its_marks_and_tables) {
  create();
  EXPECT_TRUE(check_header(path));
  Database database = Database::open(path, Access::write, nullptr).value();
  EXPECT_TRUE(check_schema(database, path));
  EXPECT_EQ(database.integer("PRAGMA application_id").value(), 0x534C4753);
  EXPECT_EQ(database.integer("PRAGMA user_version").value(), 2);
  EXPECT_EQ(database.integer("PRAGMA page_size").value(), page_bytes);
  EXPECT_EQ(database.text("PRAGMA journal_mode").value(), "wal");
  EXPECT_EQ(database
                .integer("SELECT min(strict) FROM pragma_table_list WHERE schema='main' AND"
                         " name NOT LIKE 'sqlite%'")
                .value(),
            1);
}

TEST_F(SchemaTest, lets_only_its_user_read_the_file) {
  create();
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(SchemaTest, leaves_nothing_beside_the_file) {
  create();
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().string(), path);
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(SchemaTest, replaces_what_an_attempt_that_died_has_left) {
  test::write_file(path + ".new", "half");
  test::write_file(path + ".new-journal", "half");
  test::write_file(path + ".new-wal", "half");
  create();
  EXPECT_TRUE(check_header(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".new-wal"));
}

TEST_F(SchemaTest, reports_a_folder_that_is_missing) {
  const auto missing = create_file(folder.file("no/state"), nullptr);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, FailureKind::no_access);
}

TEST_F(SchemaTest, replaces_no_folder) {
  std::filesystem::create_directory(path);
  const auto refused = create_file(path, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::io);
  EXPECT_EQ(refused.error().detail, "Is a directory");
}

TEST_F(SchemaTest, refuses_an_empty_file) {
  test::write_file(path, "");
  expect_refused(FailureKind::empty);
}

TEST_F(SchemaTest, refuses_files_that_are_no_database) {
  test::write_file(path, "limits:\n");
  expect_refused(FailureKind::not_ours);
  test::write_file(path, std::string(1'000, 'x'));
  expect_refused(FailureKind::not_ours);
}

TEST_F(SchemaTest, refuses_a_database_of_another_application) {
  create();
  change_byte(68, 'X');
  expect_refused(FailureKind::not_ours);
}

TEST_F(SchemaTest, refuses_a_newer_version) {
  create();
  change_byte(63, 3);
  expect_refused(FailureKind::newer_version);
  change_byte(63, 0);
  expect_refused(FailureKind::damaged);
}

TEST_F(SchemaTest, accepts_the_versions_that_the_caller_can_migrate) {
  create();
  change_byte(63, 1);
  EXPECT_TRUE(check_header(path));
  Database database = Database::open(path, Access::write, nullptr).value();
  EXPECT_TRUE(check_schema(database, path));
  EXPECT_EQ(read_version(database).value(), 1u);
  EXPECT_EQ(check_schema(database, path, 2).error().kind, FailureKind::damaged);
  EXPECT_EQ(check_header(path, 2).error().kind, FailureKind::damaged);
}

TEST_F(SchemaTest, refuses_a_file_that_it_cannot_read) {
  expect_refused(FailureKind::no_access);
  std::filesystem::create_directory(path);
  EXPECT_EQ(check_header(path).error().kind, FailureKind::io);
}

TEST_F(SchemaTest, believes_the_log_rather_than_the_header) {
  create();
  {
    Database database = Database::open(path, Access::write, nullptr).value();
    ASSERT_TRUE(database.execute("PRAGMA user_version=3"));
  }
  EXPECT_TRUE(check_header(path)) << "the new version is in FILE-wal only";
  Database database = Database::open(path, Access::write, nullptr).value();
  const auto refused = check_schema(database, path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::newer_version);
}

TEST_F(SchemaTest, refuses_a_file_without_one_of_its_tables) {
  create();
  Database database = Database::open(path, Access::write, nullptr).value();
  ASSERT_TRUE(database.execute("DROP TABLE run_time_quota"));
  const auto refused = check_schema(database, path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::damaged);
}

}  // namespace
}  // namespace sluice::store
