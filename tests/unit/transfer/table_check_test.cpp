// Goal: tables and columns are exactly those of go-ratelimit before a row is read. Method: changes
// to a database that is right. go_ratelimit_sqlite_test.cpp has damaged ones.
#include "transfer/table_check.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::transfer {
namespace {

std::string checked_after(const std::string& sql) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("db");
  EXPECT_TRUE(write_go_ratelimit_sqlite(path, test::go_ratelimit_sample()));
  auto database = store::Database::open(path, store::Access::write, nullptr).value();
  const auto done = database.execute(sql);
  EXPECT_TRUE(done) << done.error().text;
  Complaints complaints;
  check_database(database, complaints);
  return test::lines_of(complaints.take());
}

TEST(TableCheck, accepts_the_tables_and_what_sqlite_adds) {
  EXPECT_EQ(checked_after(""), "");
  EXPECT_EQ(checked_after("ANALYZE; CREATE INDEX more ON daily(day_count)"), "");
}

TEST(TableCheck, names_missing_and_unknown_tables) {
  EXPECT_EQ(checked_after("DROP TABLE requests; DROP TABLE daily"),
            "table requests: is missing\ntable daily: is missing\n");
  EXPECT_EQ(checked_after("CREATE TABLE \"a b\"(n)"), "table \"a b\": is unknown\n");
  EXPECT_EQ(checked_after("ALTER TABLE tokens RENAME TO token"),
            "table token: is unknown\ntable tokens: is missing\n");
}

TEST(TableCheck, refuses_tables_that_are_code) {
  EXPECT_EQ(checked_after("DROP TABLE requests; CREATE VIEW requests AS WITH RECURSIVE r(n) AS "
                          "(VALUES(1) UNION ALL SELECT n + 1 FROM r) SELECT '' model, n ts FROM r"),
            "table requests: is a view or a virtual table\n");
  EXPECT_EQ(checked_after("DROP TABLE daily; CREATE TABLE daily(model TEXT, day_count INTEGER, "
                          "day_start INTEGER GENERATED ALWAYS AS (day_count * 2))"),
            "table daily, column day_start: is generated\n");
}

TEST(TableCheck, names_missing_and_unknown_columns) {
  EXPECT_EQ(checked_after("ALTER TABLE quotas ADD COLUMN max_tpd INTEGER"),
            "table quotas, column max_tpd: is unknown\n");
  EXPECT_EQ(checked_after("ALTER TABLE tokens RENAME COLUMN count TO amount"),
            "table tokens, column amount: is unknown\ntable tokens, column count: is missing\n");
  EXPECT_EQ(checked_after("DROP TABLE daily; CREATE TABLE daily(day_start, day_count)"),
            "table daily, column model: is missing\n");
}

}  // namespace
}  // namespace sluice::transfer
