// Goal: whatever page is damaged, all rows that are on others are found, and the rest is reported
// as lost. Method: a real file of many pages, each damaged in turn, and several at once.
#include "store/salvage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "store/schema.hpp"
#include "store/state_file.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

constexpr int64_t parts_count = 300;

class SalvageTest : public ::testing::Test {
 protected:
  // Numbers from 101 on: leaf pages below the root, and a part with pages of its own.
  void SetUp() override {
    const auto file = StateFile::open({.path = path}).value();
    const std::vector<MetaValue> meta{{"seed", "17"}};
    file->set_meta(meta);
    for (uint64_t epoch = 1; epoch <= parts_count + 100; ++epoch) {
      const size_t size = epoch == 200 ? 200'000 : 2'000;
      OwnedCut cut(epoch, static_cast<uint32_t>(epoch % 3));
      cut.part(1, std::string(size, static_cast<char>('a' + epoch % 26)));
      if (epoch > 380) cut.put("name " + std::to_string(epoch), std::string(1'400, 'q'), 1);
      ASSERT_TRUE(commit_one(*file, cut, epoch == 350 ? 101 : 0));
    }
    ASSERT_TRUE(file->close());
    sound = test::read_file(path);
  }

  void damage(const std::vector<size_t>& pages) const {
    std::string bytes = sound;
    for (const size_t page : pages) {
      bytes.replace(page * page_bytes, page_bytes, page_bytes, '\xff');
    }
    test::write_file(path, bytes);
  }

  // Every number is found, or is within what is lost. Returns how many were not found.
  static int64_t expect_all(const PartList& list) {
    int64_t missing = 0;
    std::set<int64_t> found;
    for (const PartRow& row : list.rows) {
      EXPECT_EQ(row.epoch, static_cast<uint64_t>(row.number));
      EXPECT_EQ(row.shard, row.epoch % 3);
      found.insert(row.number);
    }
    for (int64_t number = 101; number <= parts_count + 100; ++number) {
      if (found.contains(number)) continue;
      ++missing;
      EXPECT_TRUE(std::ranges::any_of(list.lost, [number](const NumberRange& range) {
        return range.first <= number && number <= range.last;
      })) << number;
    }
    return missing;
  }

  const test::TemporaryFolder folder{test::TemporaryFolder::memory()};
  const std::string path = folder.file("state");
  std::string sound;
};

TEST_F(SalvageTest, reads_all_of_a_sound_file) {
  Salvage salvage = Salvage::open(path).value();
  const PartList list = salvage.list_parts();
  EXPECT_EQ(list.rows.size(), size_t{parts_count});
  EXPECT_TRUE(list.lost.empty());
  EXPECT_EQ(expect_all(list), 0);
  const auto part = salvage.part(200);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->bytes.size(), 200'000u);
  EXPECT_EQ(part->kind, 1);
  EXPECT_FALSE(salvage.part(100));
  EXPECT_EQ(salvage.meta().rows, (std::vector<StoredMeta>{{"seed", "17"}}));
  const auto quotas = salvage.run_time_quotas();
  EXPECT_EQ(quotas.rows.size(), 20u);
  EXPECT_EQ(quotas.damage, "");
}

TEST_F(SalvageTest, finds_what_is_on_other_pages) {
  const size_t pages = sound.size() / page_bytes;
  ASSERT_GT(pages, 25u);
  size_t lost_all = 0;
  size_t lost_some = 0;
  for (size_t page = 1; page < pages; ++page) {
    SCOPED_TRACE(page);
    damage({page});
    auto salvage = Salvage::open(path);
    ASSERT_TRUE(salvage) << salvage.error().text;
    const int64_t missing = expect_all(salvage->list_parts());
    if (missing == parts_count) ++lost_all;
    if (missing > 0 && missing < 20) ++lost_some;
    EXPECT_TRUE(missing < 20 || missing == parts_count) << missing;
  }
  EXPECT_EQ(lost_all, 1u) << "the page that leads to all others";
  EXPECT_GT(lost_some, 15u);
}

TEST_F(SalvageTest, finds_what_lies_between_damaged_pages) {
  const size_t pages = sound.size() / page_bytes;
  size_t found_between = 0;
  for (size_t first = 1; first < pages; first += 3) {
    for (size_t second = first + 1; second < pages; second += 4) {
      SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(second));
      damage({first, second});
      auto salvage = Salvage::open(path);
      ASSERT_TRUE(salvage) << salvage.error().text;
      const int64_t missing = expect_all(salvage->list_parts());
      EXPECT_TRUE(missing < 40 || missing == parts_count) << missing;
      found_between += missing > 15 && missing < 40 ? 1 : 0;
    }
  }
  EXPECT_GT(found_between, 10u);
}

TEST_F(SalvageTest, reads_a_file_that_lacks_its_end) {
  for (const size_t pages : {5, 10, 20}) {
    SCOPED_TRACE(pages);
    test::write_file(path, sound.substr(0, sound.size() - pages * page_bytes - 1'000));
    auto salvage = Salvage::open(path);
    ASSERT_TRUE(salvage) << salvage.error().text;
    EXPECT_LT(expect_all(salvage->list_parts()), parts_count);
  }
}

TEST_F(SalvageTest, reports_parts_whose_own_pages_are_damaged) {
  size_t unreadable = 0;
  for (size_t page = 1; page < sound.size() / page_bytes; ++page) {
    damage({page});
    auto salvage = Salvage::open(path).value();
    const PartList list = salvage.list_parts();
    if (list.rows.size() == size_t{parts_count} && !salvage.part(200)) ++unreadable;
  }
  EXPECT_GE(unreadable, 5u);
}

TEST_F(SalvageTest, reports_a_table_that_is_damaged) {
  size_t damaged = 0;
  for (size_t page = 1; page < sound.size() / page_bytes; ++page) {
    damage({page});
    auto salvage = Salvage::open(path).value();
    const auto quotas = salvage.run_time_quotas();
    EXPECT_EQ(quotas.rows.size() < 20, !quotas.damage.empty());
    damaged += quotas.damage.empty() ? 0 : 1;
  }
  EXPECT_GE(damaged, 1u);
}

TEST_F(SalvageTest, refuses_what_is_no_state_file_or_has_no_first_page) {
  damage({0});
  EXPECT_EQ(Salvage::open(path).error().kind, FailureKind::not_ours);
  std::string bytes = sound;
  bytes.replace(100, 4'000, 4'000, '\xff');
  bytes.replace(page_bytes - 4'000, 4'000, 4'000, '\xff');
  test::write_file(path, bytes);
  const auto refused = Salvage::open(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::damaged) << refused.error().text;
  test::write_file(path, "");
  EXPECT_EQ(Salvage::open(path).error().kind, FailureKind::empty);
  EXPECT_EQ(Salvage::open(folder.file("no")).error().kind, FailureKind::no_access);
}

}  // namespace
}  // namespace sluice::store
