// Goal: a state file that is written as a whole is one that a server goes on with. Method: real
// files.
#include "store/new_state.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/state_file.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

class NewStateTest : public ::testing::Test {
 protected:
  static void add(NewState& state, const OwnedCut& cut) {
    const ShardCut view = cut.view();
    const auto done = state.add({.epoch = view.epoch, .cuts = {&view, 1}});
    ASSERT_TRUE(done) << done.error().text;
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
};

TEST_F(NewStateTest, writes_a_file_that_a_server_goes_on_with) {
  NewState state = NewState::make(path).value();
  const std::vector<StoredMeta> meta{{"seed", "17"}};
  ASSERT_TRUE(state.add(meta));
  add(state, OwnedCut(3, 0).part(1, "a"));
  add(state, OwnedCut(3, 1).part(2, "b"));
  add(state, OwnedCut(8, 0).part(1, "c").quota_class(5, "[]").put("n", "{}", 4));
  ASSERT_TRUE(state.finish());
  EXPECT_FALSE(std::filesystem::exists(path));
  const test::Content expected{.parts = {{8, 0, 1, "c"}, {3, 1, 2, "b"}, {3, 0, 1, "a"}},
                               .quotas = {{"n", "{}", 4}},
                               .classes = {{5, "[]"}},
                               .meta = meta};
  EXPECT_EQ(test::read_content(state.path()), expected);
  ASSERT_TRUE(state.publish());
  const auto file = StateFile::open({.path = path}).value();
  EXPECT_EQ(file->last_epoch(), 8u);
  ASSERT_TRUE(commit_one(*file, OwnedCut(9, 0).part(1, "d")));
  EXPECT_EQ(test::read_content(path).parts.size(), 4u);
}

TEST_F(NewStateTest, leaves_nothing_when_it_is_not_published) {
  {
    NewState state = NewState::make(path).value();
    add(state, OwnedCut(1, 0).part(1, std::string(100'000, 'a')));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(NewStateTest, replaces_no_file) {
  test::write_file(path, "mine");
  const auto refused = NewState::make(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::exists);
  EXPECT_EQ(test::read_file(path), "mine");
}

}  // namespace
}  // namespace sluice::store
