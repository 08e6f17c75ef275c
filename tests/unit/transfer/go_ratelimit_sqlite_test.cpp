// Goal: a database as the library fills it is read whole; everything else is a complaint with table
// and row. Method: changes to a database that is right, and damage to its bytes.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "store/database.hpp"
#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {
namespace {

class GoRatelimitSqliteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_go_ratelimit_sqlite(path, test::go_ratelimit_sample()));
  }

  // In one transaction, so that no log is left.
  void run(const std::string& sql) {
    auto database = store::Database::open(path, store::Access::write, nullptr).value();
    const auto done = database.execute("BEGIN;" + sql + ";COMMIT");
    ASSERT_TRUE(done) << done.error().text;
  }
  std::string complained_after(const std::string& sql) {
    std::filesystem::copy_file(path, kept, std::filesystem::copy_options::overwrite_existing);
    run(sql);
    const Complained<GoRatelimitFile> file = read_go_ratelimit_sqlite(path);
    std::filesystem::rename(kept, path);
    return file ? "nothing\n" : test::lines_of(file);
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("ratelimits.db");
  const std::string kept = folder.file("kept");
};

TEST_F(GoRatelimitSqliteTest, writes_what_it_reads) {
  const Complained<GoRatelimitFile> again = read_go_ratelimit_sqlite(path);
  ASSERT_TRUE(again) << test::lines_of(again);
  EXPECT_EQ(*again, test::go_ratelimit_sample());
  EXPECT_EQ(test::names_in(folder.path()), std::vector<std::string>{"ratelimits.db"});
  const std::string nothing = folder.file("nothing.db");
  ASSERT_TRUE(write_go_ratelimit_sqlite(nothing, {}));
  EXPECT_EQ(read_go_ratelimit_sqlite(nothing).value(), GoRatelimitFile{});
}

TEST_F(GoRatelimitSqliteTest, reads_a_model_without_a_day) {
  run("INSERT INTO tokens VALUES('new', 7, 8); INSERT INTO requests VALUES('new', 9), ('new', 5)");
  EXPECT_EQ(read_go_ratelimit_sqlite(path).value().usage.at("new"),
            (ModelUsage{.requests_wall_ns = {5, 9}, .tokens = {{7, 8}}}));
}

TEST_F(GoRatelimitSqliteTest, stores_the_zero_time_as_the_library_does) {
  auto database = store::Database::open(path, store::Access::read, nullptr).value();
  EXPECT_EQ(database.integer("SELECT day_start FROM daily WHERE model='not begun'").value(),
            -6'795'364'578'871'345'152);
}

struct BadRows {
  const char* sql;
  const char* complaints;
};

TEST_F(GoRatelimitSqliteTest, refuses_bad_values) {
  for (const BadRows& bad : {
           BadRows{"INSERT INTO quotas VALUES(NULL, 1, 1, 1)",
                   "table quotas, row 4: model: is NULL\n"},
           BadRows{"INSERT INTO quotas VALUES(x'00', -1, 1.5, 'x')",
                   "table quotas, row 4: model: is a blob\n"
                   "table quotas, row 4: max_rpm: -1 is negative\n"
                   "table quotas, row 4: max_tpm: is no whole number\n"
                   "table quotas, row 4: max_rpd: is a text\n"},
           BadRows{"INSERT INTO quotas VALUES(CAST(x'ff' AS TEXT), 1, 1, 1)",
                   "table quotas, row 4: model: is no UTF-8\n"},
           BadRows{
               "INSERT INTO requests VALUES('m', -1), ('m', -6795364578871345152), ('m', 'now')",
               "table requests, row 4: ts: -1 is before 1970\n"
               "table requests, row 5: ts: is Go's zero time, at which nothing happened\n"
               "table requests, row 6: ts: is a text\n"},
           BadRows{
               "INSERT INTO tokens VALUES('m', x'01', -9)",
               "table tokens, row 4: ts: is a blob\ntable tokens, row 4: count: -9 is negative\n"},
           BadRows{"INSERT INTO daily VALUES('m', -5, -5)",
                   "table daily, row 4: day_start: -5 is before 1970\n"
                   "table daily, row 4: day_count: -5 is negative\n"},
           BadRows{"DROP TABLE daily; CREATE TABLE daily(model, day_start, day_count);"
                   "INSERT INTO daily VALUES('a', NULL, 1), ('m', 1, 1), ('m', 1, 1)",
                   "table daily, row 1: day_start: is NULL\n"
                   "table daily, row 3: model: m is there twice\n"},
           BadRows{"DROP TABLE quotas; CREATE TABLE quotas(model, max_rpm, max_tpm, max_rpd);"
                   "INSERT INTO quotas VALUES('m', 1, 1, 1), ('m', 1, 1, 1)",
                   "table quotas, row 2: model: m is there twice\n"},
           BadRows{
               "DROP TABLE quotas; CREATE TABLE quotas(model TEXT PRIMARY KEY, max_rpm, max_tpm, "
               "max_rpd) WITHOUT ROWID",
               "table quotas: cannot be read or written: no such column: rowid\n"},
           BadRows{"DROP TABLE quotas", "table quotas: is missing\n"},
           BadRows{"ALTER TABLE quotas ADD COLUMN max_tpd INTEGER",
                   "table quotas, column max_tpd: is unknown\n"},
           BadRows{"INSERT INTO quotas VALUES(CAST(zeroblob(2000000) AS TEXT), 1, 1, 1)",
                   "table quotas: cannot be read or written: string or blob too big\n"},
       }) {
    EXPECT_EQ(complained_after(bad.sql), bad.complaints) << bad.sql;
  }
}

TEST_F(GoRatelimitSqliteTest, reports_many_complaints_up_to_a_bound) {
  run("WITH RECURSIVE r(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM r WHERE n < 1000) INSERT INTO "
      "requests SELECT 'm', -n FROM r");
  const Complained<GoRatelimitFile> file = read_go_ratelimit_sqlite(path);
  ASSERT_FALSE(file);
  ASSERT_EQ(file.error().size(), go_ratelimit_complaints_max + 1);
  EXPECT_EQ(file.error().back(), (Complaint{"", "900 further complaints"}));
}

TEST_F(GoRatelimitSqliteTest, refuses_a_file_that_was_cut) {
  const uintmax_t bytes = std::filesystem::file_size(path);
  for (const uintmax_t left : {bytes - 1, bytes / 2, uintmax_t{100}, uintmax_t{16}}) {
    std::filesystem::resize_file(path, left);
    EXPECT_FALSE(read_go_ratelimit_sqlite(path)) << left;
  }
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(test::lines_of(read_go_ratelimit_sqlite(path)), "is no SQLite database\n");
}

// The same page as every child of a page would be rows without end.
TEST_F(GoRatelimitSqliteTest, refuses_pages_that_are_used_twice) {
  run("WITH RECURSIVE r(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM r WHERE n < 3000) INSERT INTO "
      "requests SELECT 'm', n FROM r");
  auto database = store::Database::open(path, store::Access::read, nullptr).value();
  const auto root = database.integer("SELECT rootpage FROM sqlite_schema WHERE name='requests'");
  std::string bytes = test::file_text(path);
  const size_t page_bytes = 4'096;
  const size_t at = static_cast<size_t>(*root - 1) * page_bytes;
  ASSERT_EQ(bytes[at], 5) << "an inner page of a table";
  const auto cell_at = [&](size_t i) {
    const auto* const begin = reinterpret_cast<const unsigned char*>(&bytes[at + 12 + 2 * i]);
    return at + begin[0] * 256U + begin[1];
  };
  bytes.replace(cell_at(1), 4, bytes, cell_at(0), 4);
  test::write_text(path, bytes);
  const std::string complaints = test::lines_of(read_go_ratelimit_sqlite(path));
  EXPECT_NE(complaints.find("is damaged: "), std::string::npos) << complaints;
}

TEST_F(GoRatelimitSqliteTest, replaces_no_file) {
  const std::string before = test::file_text(path);
  EXPECT_EQ(test::lines_of(write_go_ratelimit_sqlite(path, {})),
            "exists already; name a file that does not exist\n");
  EXPECT_EQ(test::file_text(path), before);
  EXPECT_EQ(test::names_in(folder.path()), std::vector<std::string>{"ratelimits.db"});
}

}  // namespace
}  // namespace sluice::transfer
