// Goal: a copy has all that the source had, and nothing else. Method: real files. backup_test.cpp
// has copies that fail.
#include "store/copy.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "store/state_file.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

TEST(Copy, has_what_is_in_the_log_and_no_free_room) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const std::string target = folder.file("copy");
  const auto file = StateFile::open({.path = path}).value();
  ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, std::string(500'000, 'a'))));
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, "b").put("n", "{}", 1), 2));
  Database source = Database::open(path, Access::read, nullptr).value();
  UnfinishedFile copy = UnfinishedFile::make(target, nullptr).value();
  const auto done = copy_into(source, copy, nullptr);
  ASSERT_TRUE(done) << done.error().text;
  ASSERT_TRUE(copy.publish());
  EXPECT_EQ(test::read_content(target), test::read_content(path));
  EXPECT_LT(std::filesystem::file_size(target), 200'000u);
}

}  // namespace
}  // namespace sluice::store
