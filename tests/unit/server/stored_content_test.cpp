// Goal:   a file that a server goes on writing is read as of one commit, and what is wrong with it
//         is reported without a flag's name.
// Method: real files. stored_file_test.cpp has what a start finds in the same way.
#include "server/stored_content.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "state/part_builder.hpp"
#include "store/state_file.hpp"
#include "tests/support/stored_state.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/quota/store_driver.hpp"
#include "tests/unit/server/small_store.hpp"

namespace sluice::server {
namespace {

class StoredContentTest : public testing::Test {
 protected:
  static constexpr const quota::Options& options = small_store;

  void SetUp() override {
    file_ = store::StateFile::open({.path = path_}).value();
    set_meta(*file_, {.name_seed = 42}, 1);
    server_.put("a", {quota::rpm(100)});
  }
  void record_and_commit(uint64_t requests) {
    server_.record({"a"}, {.requests = requests});
    ++epoch_;
    state::PartBuilder builder(
        {.subjects_max = 100, .name_bytes_max = options.name_bytes_max, .reservations_max = 100});
    server_.store.write_all();
    server_.store.begin_cut(builder, {.epoch = epoch_});
    while (server_.store.hand_over(1'000)) {
    }
    const quota::CutFacts facts = server_.store.cut_facts();
    builder.finish({.epoch = epoch_,
                    .time = {.state_ns = server_.now().monotonic_ns},
                    .calendar_wall_ns = facts.calendar_wall_ns,
                    .order = facts.order});
    test::OwnedCut cut(epoch_, 0);
    for (const auto& each : builder.parts()) cut.part(1, test::as_text(each));
    for (const auto& each : builder.quota_classes()) cut.quota_class(each.id, each.quota);
    ASSERT_TRUE(test::commit_one(*file_, cut, epoch_)) << "older parts are deleted";
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("state");
  std::unique_ptr<store::StateFile> file_;
  quota::StoreDriver server_{options};
  uint64_t epoch_ = 0;
};

TEST_F(StoredContentTest, is_that_of_one_commit_while_others_follow) {
  record_and_commit(3);
  store::StateReader reader = store::StateReader::open(path_).value();
  record_and_commit(4);
  const StoredContent content(path_, reader);
  record_and_commit(5);
  for (int time = 0; time < 2; ++time) {
    quota::StoreDriver after(options);
    EXPECT_EQ(content.restore(reader, after.store, after.now()).subjects, 1U);
    EXPECT_EQ(after.used("a", "rpm"), 3U);
  }
}

TEST_F(StoredContentTest, names_the_file_as_it_was_given) {
  const store::Result<void> done = test::commit_one(*file_, test::OwnedCut(1, 0).part(1, "none"));
  ASSERT_TRUE(done) << done.error().text;
  store::StateReader reader = store::StateReader::open(path_).value();
  try {
    const StoredContent content("./as-given", reader);
    FAIL() << "it is not refused";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("./as-given: damaged: part 1: "), 0U) << error.what();
  }
}

}  // namespace
}  // namespace sluice::server
