// Method: a real file whose parts hold their time as text.
#include "store/info.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "store/state_file.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

std::optional<int64_t> time_of(std::span<const std::byte> bytes) {
  return std::stoll(test::as_text(bytes));
}

TEST(Info, says_that_a_new_file_has_nothing) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const auto file = StateFile::open({.path = path}).value();
  const Info info = read_info(path, time_of).value();
  EXPECT_EQ(info.schema_version, 2u);
  EXPECT_EQ(info.parts_count, 0u);
  EXPECT_EQ(info.last_epoch, 0u);
  EXPECT_FALSE(info.last_commit_wall_ns);
}

TEST(Info, counts_what_a_running_server_has_committed) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const auto file = StateFile::open({.path = path}).value();
  const std::vector<MetaValue> meta{{"shards", "2"}};
  file->set_meta(meta);
  ASSERT_TRUE(commit_one(*file, OwnedCut(3, 0).part(1, "100").part(1, "200").put("a", "{}", 1)));
  ASSERT_TRUE(commit_one(*file, OwnedCut(5, 1).part(1, "3000").quota_class(1, "{}")));
  const Info info = read_info(path, time_of).value();
  EXPECT_EQ(info.path, std::filesystem::canonical(path).string());
  EXPECT_EQ(info.file_bytes, std::filesystem::file_size(path));
  EXPECT_EQ(info.wal_bytes, std::filesystem::file_size(path + "-wal"));
  EXPECT_EQ(info.parts_count, 3u);
  EXPECT_EQ(info.parts_bytes, 10u);
  EXPECT_EQ(info.first_epoch, 3u);
  EXPECT_EQ(info.last_epoch, 5u);
  EXPECT_EQ(info.last_commit_wall_ns, 3'000);
  EXPECT_EQ(info.quota_classes_count, 1u);
  EXPECT_EQ(info.run_time_quotas_count, 1u);
  EXPECT_EQ(info.meta, (std::vector<StoredMeta>{{"shards", "2"}}));
  EXPECT_EQ(info.unused_bytes, 0u);
}

TEST(Info, counts_the_room_of_what_was_deleted) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const auto file = StateFile::open({.path = path}).value();
  ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, std::string(163'840, '1'))));
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, "2"), 2));
  EXPECT_GE(read_info(path, time_of).value().unused_bytes, 163'840u);
}

TEST(Info, reports_a_file_that_it_cannot_read) {
  const test::TemporaryFolder folder;
  const auto missing = read_info(folder.file("state"), time_of);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, FailureKind::no_access);
}

}  // namespace
}  // namespace sluice::store
