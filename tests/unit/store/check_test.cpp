// Goal: whatever is wrong in a file is found and reported. Method: real files, some damaged.
#include "store/check.hpp"

#include <gtest/gtest.h>

#include <string>

#include "store/schema.hpp"
#include "store/state_file.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

std::optional<int64_t> no_time(std::span<const std::byte> /*bytes*/) {
  return std::nullopt;
}

std::optional<std::string> refuse_x(const StoredPart& part) {
  if (test::as_text(part.bytes).find('x') == std::string::npos) return std::nullopt;
  return "it has an x";
}

class CheckTest : public ::testing::Test {
 protected:
  void SetUp() override { file = StateFile::open({.path = path}).value(); }

  void commit(uint64_t epoch, const std::string& bytes) {
    ASSERT_TRUE(commit_one(*file, OwnedCut(epoch, 0).part(1, bytes)));
  }

  CheckReport run() {
    const auto report = check(path, no_time, refuse_x);
    EXPECT_TRUE(report) << report.error().text;
    return report.value_or(CheckReport{});
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  std::unique_ptr<StateFile> file;
};

TEST_F(CheckTest, finds_nothing_in_a_sound_file_of_a_running_server) {
  commit(1, "a");
  commit(2, "b");
  const CheckReport report = run();
  EXPECT_TRUE(report.complaints.empty());
  EXPECT_EQ(report.damaged_parts_count, 0u);
  EXPECT_EQ(report.info.parts_count, 2u);
  EXPECT_EQ(report.info.last_epoch, 2u);
}

TEST_F(CheckTest, reports_each_part_that_its_reader_refuses) {
  commit(1, "x");
  commit(2, "b");
  commit(3, "xy");
  const CheckReport report = run();
  EXPECT_EQ(report.damaged_parts_count, 2u);
  EXPECT_EQ(report.complaints,
            (std::vector<std::string>{"part 3: it has an x", "part 1: it has an x"}));
}

TEST_F(CheckTest, does_not_repeat_itself_without_end) {
  for (uint64_t epoch = 1; epoch <= complaints_max + 10; ++epoch) commit(epoch, "x");
  const CheckReport report = run();
  EXPECT_EQ(report.damaged_parts_count, complaints_max + 10);
  EXPECT_EQ(report.complaints.size(), complaints_max);
}

TEST_F(CheckTest, reports_epochs_that_are_not_in_their_order) {
  commit(1, "a");
  commit(2, "b");
  Database database = Database::open(path, Access::write, nullptr).value();
  ASSERT_TRUE(database.execute("UPDATE part SET epoch = 7 WHERE number = 1"));
  const CheckReport report = run();
  EXPECT_EQ(report.damaged_parts_count, 1u);
  EXPECT_EQ(
      report.complaints,
      (std::vector<std::string>{"part 1: its epoch 7 is later than that of the part after it"}));
}

TEST_F(CheckTest, reports_pages_that_are_damaged_and_goes_on) {
  for (uint64_t epoch = 1; epoch <= 50; ++epoch) commit(epoch, std::string(60'000, 'a'));
  ASSERT_TRUE(file->close());
  const std::string sound = test::read_file(path);
  for (size_t at = page_bytes; at < sound.size(); at += page_bytes) {
    std::string bytes = sound;
    bytes.replace(at, page_bytes, page_bytes, '\xff');
    test::write_file(path, bytes);
    EXPECT_FALSE(run().complaints.empty()) << at;
  }
}

TEST_F(CheckTest, reports_a_file_that_is_not_ours_as_a_failure) {
  test::write_file(folder.file("empty"), "");
  const auto failed = check(folder.file("empty"), no_time, refuse_x);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, FailureKind::empty);
}

}  // namespace
}  // namespace sluice::store
