// Goal: values pass SQLite unchanged, and each trouble has its kind. Method: real database files.
#include "store/database.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/as_nobody.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

class DatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_file(path, "");
    database = Database::open(path, Access::write, nullptr).value();
    run("PRAGMA journal_mode=WAL");
    run("CREATE TABLE t(n INTEGER, x TEXT, b BLOB) STRICT");
  }

  void run(const std::string& sql) {
    const auto done = database.execute(sql);
    ASSERT_TRUE(done) << done.error().text;
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("db");
  Database database;
};

TEST_F(DatabaseTest, returns_what_was_bound) {
  Statement insert = database.prepare("INSERT INTO t VALUES(?1,?2,?3)").value();
  const std::string text("a\0b", 3);
  ASSERT_TRUE(insert.bind(1, INT64_MIN).bind(2, text).bind(3, test::as_bytes(text)).run());
  ASSERT_TRUE(insert.bind(1, 2).bind(2, std::string_view()).bind(3, test::as_bytes({})).run());
  Statement select = database.prepare("SELECT n, x, b FROM t").value();
  ASSERT_TRUE(select.step().value());
  EXPECT_EQ(select.integer(0), INT64_MIN);
  EXPECT_EQ(select.text(1), text);
  EXPECT_EQ(test::as_text(select.blob(2)), text);
  ASSERT_TRUE(select.step().value());
  EXPECT_EQ(select.text(1), "");
  EXPECT_EQ(select.blob(2).size(), 0u);
  EXPECT_FALSE(select.step().value());
  EXPECT_EQ(database.integer("SELECT count(*) FROM t WHERE x IS NULL OR b IS NULL").value(), 0);
}

TEST_F(DatabaseTest, runs_a_statement_again_after_a_failure) {
  run("CREATE UNIQUE INDEX i ON t(n)");
  Statement insert = database.prepare("INSERT INTO t(n) VALUES(?1)").value();
  ASSERT_TRUE(insert.bind(1, 1).run());
  const auto refused = insert.bind(1, 1).run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::io) << "which stands for all that has no kind";
  EXPECT_TRUE(insert.bind(1, 2).run());
}

TEST_F(DatabaseTest, reports_a_value_that_cannot_be_bound) {
  Statement insert = database.prepare("INSERT INTO t(n) VALUES(?1)").value();
  EXPECT_FALSE(insert.bind(2, 1).run()) << "there is no such parameter";
  EXPECT_TRUE(insert.bind(1, 1).run());
}

TEST_F(DatabaseTest, reports_sql_that_it_does_not_understand) {
  EXPECT_FALSE(database.prepare("SELECT nonsense"));
  EXPECT_FALSE(database.execute("nonsense"));
  EXPECT_FALSE(database.integer("SELECT nonsense"));
  EXPECT_FALSE(database.text("SELECT nonsense"));
}

TEST_F(DatabaseTest, is_busy_while_another_connection_writes) {
  Database other = Database::open(path, Access::write, nullptr).value();
  ASSERT_TRUE(other.execute("BEGIN IMMEDIATE"));
  const auto refused = database.execute("BEGIN IMMEDIATE");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::busy);
  EXPECT_TRUE(refused.error().text.starts_with(path)) << refused.error().text;
  EXPECT_FALSE(database.in_transaction());
  ASSERT_TRUE(other.execute("ROLLBACK"));
  run("BEGIN IMMEDIATE");
  EXPECT_TRUE(database.in_transaction());
}

TEST_F(DatabaseTest, opens_only_files_that_are_there) {
  const auto missing = Database::open(folder.file("other"), Access::write, nullptr);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, FailureKind::no_access);
  EXPECT_NE(missing.error().text.find("No such file or directory"), std::string::npos)
      << missing.error().text;
  EXPECT_FALSE(std::filesystem::exists(folder.file("other")));
}

TEST_F(DatabaseTest, knows_that_it_may_not_write) {
  EXPECT_FALSE(database.is_readonly());
  Database reader = Database::open(path, Access::read, nullptr).value();
  EXPECT_TRUE(reader.is_readonly());
  const auto refused = reader.execute("DELETE FROM t");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::readonly);
}

TEST_F(DatabaseTest, knows_the_type_of_each_value) {
  Statement select = database.prepare("SELECT NULL, 1, 1.5, '1', x'31'").value();
  ASSERT_TRUE(select.step().value());
  EXPECT_EQ(select.type(0), ValueType::null);
  EXPECT_EQ(select.type(1), ValueType::integer);
  EXPECT_EQ(select.type(2), ValueType::real);
  EXPECT_EQ(select.type(3), ValueType::text);
  EXPECT_EQ(select.type(4), ValueType::blob);
}

TEST_F(DatabaseTest, reads_an_immutable_file_without_lock_and_log) {
  run("INSERT INTO t(n) VALUES(1)");
  ASSERT_TRUE(database.checkpoint_truncate().value());
  run("INSERT INTO t(n) VALUES(2)");
  const std::string copy = folder.file("a %41?b#c");
  std::filesystem::copy_file(path, copy);
  test::write_file(copy + "-wal", test::read_file(path + "-wal"));
  Database reader = Database::open(copy, Access::immutable, nullptr).value();
  EXPECT_TRUE(reader.is_readonly());
  EXPECT_EQ(reader.integer("SELECT count(*) FROM t").value(), 1) << "the log has the second";
  EXPECT_FALSE(std::filesystem::exists(copy + "-shm"));
  EXPECT_FALSE(Database::open(folder.file("other"), Access::immutable, nullptr));
}

TEST_F(DatabaseTest, runs_nothing_of_a_database_that_it_distrusts) {
  run("CREATE TABLE c(n CHECK(n < 10)); INSERT INTO c VALUES(5)");
  run("PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql='CREATE TABLE c(n CHECK(n > 10))'"
      " WHERE name='c'");
  run("INSERT INTO t(b) VALUES(zeroblob(2000000))");
  database = Database::open(path, Access::write, nullptr).value();
  EXPECT_FALSE(database.quick_check().value().empty()) << "the check is run";
  database = Database::open(path, Access::write, nullptr).value();
  ASSERT_TRUE(database.distrust());
  EXPECT_TRUE(database.quick_check().value().empty());
  EXPECT_FALSE(database.execute("PRAGMA writable_schema=ON; DELETE FROM sqlite_schema"));
  const auto too_long = database.integer("SELECT b FROM t");
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().detail, "string or blob too big");
}

TEST_F(DatabaseTest, finds_damage) {
  run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000)"
      " INSERT INTO t(x) SELECT hex(randomblob(50)) FROM n");
  EXPECT_TRUE(database.quick_check().value().empty());
  EXPECT_TRUE(database.checkpoint_truncate().value());
  database = {};
  const int file = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(file, std::string(4'096, '\xff').data(), 4'096, 4'096 * 5), 4'096);
  ::close(file);
  database = Database::open(path, Access::write, nullptr).value();
  const auto complaints = database.quick_check();
  ASSERT_TRUE(complaints) << complaints.error().text;
  EXPECT_FALSE(complaints->empty());
  for (const std::string& complaint : *complaints) {
    EXPECT_EQ(complaint.find('\n'), std::string::npos) << complaint;
    EXPECT_FALSE(complaint.starts_with("***")) << complaint;
  }
  const auto failed = database.integer("SELECT sum(length(x)) FROM t");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, FailureKind::corrupt);
}

TEST_F(DatabaseTest, counts_the_pages_in_the_log_and_copies_them_when_asked) {
  int pages = 0;
  database.count_wal_pages_in(pages);
  run("INSERT INTO t(n) VALUES(1)");
  EXPECT_GT(pages, 0);
  const std::string before = test::read_file(path);
  EXPECT_TRUE(database.checkpoint_passive());
  EXPECT_NE(test::read_file(path), before);
  EXPECT_GT(std::filesystem::file_size(path + "-wal"), 0u);
  EXPECT_TRUE(database.checkpoint_truncate().value());
  EXPECT_EQ(std::filesystem::file_size(path + "-wal"), 0u);
}

TEST_F(DatabaseTest, does_not_empty_a_log_that_somebody_reads) {
  Database reader = Database::open(path, Access::read, nullptr).value();
  run("INSERT INTO t(n) VALUES(1)");
  ASSERT_TRUE(reader.execute("BEGIN"));
  ASSERT_TRUE(reader.integer("SELECT count(*) FROM t"));
  run("INSERT INTO t(n) VALUES(2)");
  const auto truncated = database.checkpoint_truncate();
  ASSERT_TRUE(truncated);
  EXPECT_FALSE(*truncated);
  EXPECT_TRUE(database.checkpoint_passive());
}

TEST_F(DatabaseTest, leaves_the_log_as_it_is_unless_asked) {
  run("INSERT INTO t(n) VALUES(1)");
  const std::string log = test::read_file(path + "-wal");
  EXPECT_FALSE(log.empty());
  database = {};
  EXPECT_EQ(test::read_file(path + "-wal"), log);
  database = Database::open(path, Access::write, nullptr).value();
  EXPECT_EQ(database.integer("SELECT count(*) FROM t").value(), 1);
  database.checkpoint_on_close();
  database = {};
  EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
}

TEST_F(DatabaseTest, writes_the_log_again_without_changing_it) {
  run("INSERT INTO t(b) VALUES(randomblob(3000000))");
  const std::string log = test::read_file(path + "-wal");
  const auto done = database.rewrite_wal();
  EXPECT_TRUE(done) << done.error().text;
  EXPECT_EQ(test::read_file(path + "-wal"), log);
}

}  // namespace
}  // namespace sluice::store
