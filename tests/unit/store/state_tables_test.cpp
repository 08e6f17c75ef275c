// Goal: the tables hold what batches say. Method: a real file, read back after each batch.
#include "store/state_tables.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/schema.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

class StateTablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(create_file(path, nullptr));
    database = Database::open(path, Access::write, nullptr).value();
    tables = StateTables::prepare(database).value();
  }

  void write(const std::vector<OwnedCut>& cuts, uint64_t delete_before_epoch = 0,
             uint64_t delete_windows_before_epoch = 0) {
    std::vector<ShardCut> views;
    for (const OwnedCut& cut : cuts) views.push_back(cut.view());
    const Batch batch{.epoch = views.empty() ? end.last_epoch + 1 : views.front().epoch,
                      .cuts = views,
                      .delete_before_epoch = delete_before_epoch,
                      .delete_windows_before_epoch = delete_windows_before_epoch};
    ASSERT_TRUE(tables.begin());
    const auto done = tables.write(batch, end);
    ASSERT_TRUE(done) << done.error().text;
    ASSERT_TRUE(tables.commit());
    expect_end();
  }

  // What was followed is what the file has.
  void expect_end() {
    const LogEnd read = tables.read_end().value();
    EXPECT_EQ(read.bytes, end.bytes);
    if (read.last_epoch == 0) return;
    EXPECT_EQ(read.next_number, end.next_number);
    EXPECT_EQ(read.last_epoch, end.last_epoch);
  }

  test::Content content() { return test::read_content(path); }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  Database database;
  StateTables tables;
  LogEnd end;
};

TEST_F(StateTablesTest, is_empty_at_first) {
  expect_end();
  EXPECT_EQ(end.next_number, 1);
}

TEST_F(StateTablesTest, keeps_the_parts_of_all_shards_in_their_order) {
  write({OwnedCut(5, 0).part(1, "a").part(2, ""), OwnedCut(5, 1), OwnedCut(5, 2).part(1, "bc")});
  write({OwnedCut(7, 0).part(1, "d")});
  EXPECT_EQ(content().parts, (std::vector<test::OwnedPart>{
                                 {7, 0, 1, "d"}, {5, 2, 1, "bc"}, {5, 0, 2, ""}, {5, 0, 1, "a"}}));
  EXPECT_EQ(end.bytes, 4u);
  EXPECT_EQ(end.next_number, 5);
}

TEST_F(StateTablesTest, keeps_numbers_of_64_bits) {
  write({OwnedCut(1, UINT32_MAX).part(255, "a").quota_class(UINT64_MAX, "{}")});
  EXPECT_EQ(content().parts.front(), (test::OwnedPart{1, UINT32_MAX, 255, "a"}));
  EXPECT_EQ(content().classes, (std::vector<StoredClass>{{UINT64_MAX, "{}"}}));
}

// Parts of kind 2 are those of windows.
TEST_F(StateTablesTest, deletes_windows_apart_from_all_else) {
  write({OwnedCut(1, 0).part(1, "a").part(2, "windows")});
  write({OwnedCut(2, 0).part(1, "b").part(2, "windows")});
  EXPECT_EQ(end.bytes, 2u) << "without windows";
  write({OwnedCut(3, 0).part(1, "c")}, 2);
  EXPECT_EQ(content().parts,
            (std::vector<test::OwnedPart>{
                {3, 0, 1, "c"}, {2, 0, 2, "windows"}, {2, 0, 1, "b"}, {1, 0, 2, "windows"}}));
  write({OwnedCut(4, 0).part(1, "d").part(2, "new")}, 0, 2);
  write({OwnedCut(5, 0).part(1, "")}, 0, 4);
  EXPECT_EQ(content().parts,
            (std::vector<test::OwnedPart>{
                {5, 0, 1, ""}, {4, 0, 2, "new"}, {4, 0, 1, "d"}, {3, 0, 1, "c"}, {2, 0, 1, "b"}}));
  EXPECT_EQ(end.bytes, 3u);
}

TEST_F(StateTablesTest, puts_and_removes_quotas_in_the_given_order) {
  write({OwnedCut(1, 0).put("a", "1", 10).put("b", "2", 11).put("a", "3", 12),
         OwnedCut(1, 1).put("c", "4", 13).remove("c").remove("never")});
  EXPECT_EQ(content().quotas, (std::vector<StoredQuota>{{"a", "3", 12}, {"b", "2", 11}}));
  write({OwnedCut(2, 0).remove("a").put("a", "5", -1).remove("b")});
  EXPECT_EQ(content().quotas, (std::vector<StoredQuota>{{"a", "5", -1}}));
}

TEST_F(StateTablesTest, deletes_the_parts_of_epochs_before_the_given_one) {
  write({OwnedCut(1, 0).part(1, "a"), OwnedCut(1, 1).part(1, "b")});
  write({OwnedCut(2, 0).part(1, "c")});
  write({OwnedCut(4, 0).part(1, "d")}, 2);
  EXPECT_EQ(content().parts, (std::vector<test::OwnedPart>{{4, 0, 1, "d"}, {2, 0, 1, "c"}}));
  write({OwnedCut(5, 0).part(1, "e")}, 3);
  EXPECT_EQ(content().parts, (std::vector<test::OwnedPart>{{5, 0, 1, "e"}, {4, 0, 1, "d"}}));
}

TEST_F(StateTablesTest, deletes_all_parts_when_nothing_is_alive) {
  write({OwnedCut(1, 0).part(1, "a")});
  write({OwnedCut(3, 0)}, 3);
  EXPECT_TRUE(content().parts.empty());
  EXPECT_EQ(end.bytes, 0u);
  write({OwnedCut(4, 0).part(1, "b")});
  EXPECT_EQ(content().parts, (std::vector<test::OwnedPart>{{4, 0, 1, "b"}}));
}

TEST_F(StateTablesTest, deletes_classes_that_were_not_named_since) {
  write({OwnedCut(1, 0).quota_class(1, "one").quota_class(2, "two").part(1, "a")});
  write({OwnedCut(2, 0).quota_class(2, "two").part(1, "b")});
  EXPECT_EQ(content().classes, (std::vector<StoredClass>{{1, "one"}, {2, "two"}}));
  write({OwnedCut(3, 0).part(1, "c")}, 2);
  EXPECT_EQ(content().classes, (std::vector<StoredClass>{{2, "two"}}));
}

TEST_F(StateTablesTest, replaces_values_of_one_name) {
  const std::vector<StoredMeta> first{{"seed", "1"}, {"shards", "2"}};
  ASSERT_TRUE(tables.write(first));
  const std::vector<StoredMeta> second{{"shards", "3"}};
  ASSERT_TRUE(tables.write(second));
  EXPECT_EQ(content().meta, (std::vector<StoredMeta>{{"seed", "1"}, {"shards", "3"}}));
}

TEST_F(StateTablesTest, forgets_what_is_rolled_back) {
  write({OwnedCut(1, 0).part(1, "a")});
  LogEnd dropped = end;
  const OwnedCut cut = OwnedCut(2, 0).part(1, "b");
  const ShardCut view = cut.view();
  ASSERT_TRUE(tables.begin());
  ASSERT_TRUE(tables.write(Batch{.epoch = 2, .cuts = {&view, 1}}, dropped));
  ASSERT_TRUE(tables.rollback());
  expect_end();
}

}  // namespace
}  // namespace sluice::store
