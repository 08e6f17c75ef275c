// Goal: what is recovered of any damaged file is sound, of whole commits, and no more is lost than
// was damaged. Method: files of two shards, damaged page by page, part by part, row by row.
#include "cli/state_recovery.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "cli/part_check.hpp"
#include "store/state_file.hpp"
#include "tests/support/sample_state.hpp"
#include "tests/support/stored_state.hpp"
#include "tests/support/temporary_folder.hpp"

namespace sluice::cli {
namespace {

using sluice::test::commit_sample;
using sluice::test::read_content;
using sluice::test::read_file;
using sluice::test::write_file;

constexpr uint64_t epochs_count = 20;

class StateRecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = store::StateFile::open({.path = path}).value();
    file->set_meta(sluice::test::sample_meta);
    for (uint64_t epoch = 1; epoch <= epochs_count; ++epoch) {
      ASSERT_TRUE(commit_sample(*file, epoch, 20'778 * base::ns_per_day));
    }
    ASSERT_TRUE(file->close());
  }

  void execute(const std::string& sql) const {
    auto database = store::Database::open(path, store::Access::write, nullptr).value();
    const auto done = database.execute(sql);
    ASSERT_TRUE(done) << done.error().text;
    database.checkpoint_on_close();
  }

  // Also that it changes nothing in the old file.
  RecoveryReport run() const {
    std::filesystem::remove(made);
    const std::string before = read_file(path);
    RecoveryReport report = StateRecovery(path, made).run();
    EXPECT_EQ(read_file(path), before);
    return report;
  }

  std::string losses() const {
    std::string text;
    for (const std::string& line : run().losses) text += line + "\n";
    return text;
  }
  uint64_t last_epoch() const { return read_content(made).parts.front().epoch; }

  const sluice::test::TemporaryFolder folder{sluice::test::TemporaryFolder::memory()};
  const std::string path = folder.file("state.db");
  const std::string made = folder.file("made.db");
};

constexpr const char* flip = "UPDATE part SET bytes = CAST(replace(bytes, 'gpt', 'GPT') AS BLOB) ";

TEST_F(StateRecoveryTest, keeps_all_of_a_sound_file) {
  const RecoveryReport report = run();
  EXPECT_TRUE(report.losses.empty());
  EXPECT_EQ(report.made.parts_count, 2 * epochs_count);
  EXPECT_EQ(read_content(made), read_content(path));
  EXPECT_FALSE(std::filesystem::exists(made + ".unfinished"));
}

TEST_F(StateRecoveryTest, leaves_out_an_older_damaged_part) {
  execute(std::string(flip) + "WHERE number = 11");
  EXPECT_EQ(losses(), "part 11: its checksum is wrong\n");
  EXPECT_EQ(last_epoch(), epochs_count);
  EXPECT_EQ(read_content(made).parts.size(), 39u);
}

TEST_F(StateRecoveryTest, ends_with_the_newest_whole_epoch) {
  execute(std::string(flip) + "WHERE number IN (40, 37)");
  EXPECT_EQ(losses(),
            "part 37: its checksum is wrong\npart 40: its checksum is wrong\n"
            "2 sound parts of epochs 19 to 20: not whole\n");
  EXPECT_EQ(last_epoch(), 18u);
}

TEST_F(StateRecoveryTest, ends_before_an_epoch_that_lacks_a_shard) {
  execute("DELETE FROM part WHERE number = 40");
  EXPECT_EQ(losses(), "a sound part of epoch 20: not whole\n");
  EXPECT_EQ(last_epoch(), 19u);
}

TEST_F(StateRecoveryTest, leaves_out_what_is_not_in_its_order) {
  execute("UPDATE part SET epoch = 7 WHERE number = 40");
  const std::string text = losses();
  EXPECT_NE(text.find("part 40: its row has epoch 7"), std::string::npos) << text;
  EXPECT_EQ(last_epoch(), 19u);
}

TEST_F(StateRecoveryTest, keeps_quotas_when_no_epoch_is_whole) {
  execute("DELETE FROM part WHERE shard = 1");
  EXPECT_EQ(losses(), "20 sound parts: no epoch is whole\n");
  EXPECT_TRUE(read_content(made).parts.empty());
  EXPECT_EQ(read_content(made).quotas.size(), 1u);
}

TEST_F(StateRecoveryTest, keeps_quotas_when_the_seeds_are_lost) {
  execute("DELETE FROM meta WHERE key = 'name_seed'");
  EXPECT_EQ(losses(), "the seeds of its hashes, so all parts: usage and reservations\n");
  EXPECT_TRUE(read_content(made).parts.empty());
  EXPECT_TRUE(read_content(made).meta.empty());
  EXPECT_EQ(read_content(made).quotas.size(), 1u);
}

TEST_F(StateRecoveryTest, leaves_out_quotas_that_are_damaged) {
  execute(R"(INSERT INTO run_time_quota VALUES('b c', '{"limits":', 1))");
  const std::string text = losses();
  EXPECT_TRUE(text.starts_with("the quota put for \"b c\": not JSON")) << text;
  EXPECT_EQ(read_content(made).quotas.size(), 1u);
}

TEST_F(StateRecoveryTest, keeps_a_quota_that_only_this_machine_cannot_use) {
  execute(R"(INSERT INTO run_time_quota VALUES('b', '{"limits":[{"name":"t","metric":"tokens",)"
          R"("amount":1,"kind":"calendar","period":"day","time_zone":"Mars/Olympus"}]}', 1))");
  EXPECT_EQ(losses(), "");
  EXPECT_EQ(read_content(made).quotas.size(), 2u);
}

TEST_F(StateRecoveryTest, restores_a_lost_class_from_a_quota_that_was_put) {
  execute("DELETE FROM quota_class");
  EXPECT_EQ(losses(), "");
  EXPECT_EQ(read_content(made).classes.size(), 1u);
}

TEST_F(StateRecoveryTest, keeps_sound_parts_of_other_kinds_and_needs_none_of_them) {
  execute("INSERT INTO part SELECT 41, epoch, shard, 2, bytes FROM part WHERE number = 40");
  execute("INSERT INTO part SELECT 42, epoch, shard, 2, zeroblob(200) FROM part WHERE number = 40");
  EXPECT_EQ(losses(), "part 42: it is not a part of a state\n");
  EXPECT_EQ(last_epoch(), epochs_count);
  EXPECT_EQ(read_content(made).parts.front().kind, 2);
  EXPECT_EQ(read_content(made).parts.size(), 41u);
}

TEST_F(StateRecoveryTest, never_replaces_a_file) {
  write_file(made, "mine");
  EXPECT_THROW(StateRecovery(path, made), std::runtime_error);
  EXPECT_EQ(read_file(made), "mine");
}

TEST_F(StateRecoveryTest, makes_a_sound_file_whatever_page_is_damaged) {
  execute(
      "INSERT INTO part SELECT number + 100, epoch + 20, 0, 1, zeroblob(40000) FROM part "
      "WHERE number < 9");
  constexpr size_t page_bytes = 16'384;
  const std::string sound = read_file(path);
  size_t recovered = 0;
  for (size_t page = 1; page < sound.size() / page_bytes; ++page) {
    SCOPED_TRACE(page);
    for (const size_t at : {size_t{0}, size_t{5'000}, page_bytes - 3'000}) {
      std::string bytes = sound;
      bytes.replace(page * page_bytes + at, 2'000, 2'000, '\xff');
      write_file(path, bytes);
      const RecoveryReport report = run();
      EXPECT_FALSE(report.losses.empty());
      const auto verify = [](const store::StoredPart& part) { return find_damage(part); };
      const auto checked = store::check(made, cut_wall_ns, verify);
      ASSERT_TRUE(checked) << checked.error().text;
      EXPECT_TRUE(checked->complaints.empty()) << checked->complaints.front();
      recovered += report.made.last_epoch == epochs_count ? 1 : 0;
    }
  }
  EXPECT_GT(recovered, 20u);
}

}  // namespace
}  // namespace sluice::cli
