// Goal: `state` shows, checks and copies any file, and refuses what is none with cause and cure.
// Method: files that StateFile writes, whole, damaged, or still in use by it.
#include "cli/state_command.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "store/state_file.hpp"
#include "tests/support/sample_state.hpp"
#include "tests/support/stored_state.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/cli/run_command.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

using sluice::test::commit_sample;
using sluice::test::read_file;
using sluice::test::write_file;
using test::Outcome;

constexpr int64_t wall_ns = 20'778 * base::ns_per_day;

class StateCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    file = store::StateFile::open({.path = path}).value();
    file->set_meta(sluice::test::sample_meta);
    for (const uint64_t epoch : {3, 4}) commit(epoch);
  }

  void commit(uint64_t epoch) {
    const auto done = commit_sample(*file, epoch, wall_ns);
    ASSERT_TRUE(done) << done.error().text;
  }

  static Outcome run(const std::string& words) {
    return test::run_command(add_state_command, "state " + words);
  }
  // The error of a command that does nothing.
  static std::string refusal(const std::string& words) {
    try {
      const Outcome outcome = run(words);
      ADD_FAILURE() << words << ": " << outcome.output << outcome.errors;
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  void execute(const std::string& sql) const {
    auto database = store::Database::open(path, store::Access::write, nullptr).value();
    const auto done = database.execute(sql);
    ASSERT_TRUE(done) << done.error().text;
  }

  void flip_a_bit_of_part(int64_t number) const {
    auto database = store::Database::open(path, store::Access::write, nullptr).value();
    std::string bytes = sluice::test::sample_part(3, 0, wall_ns);
    bytes[100] = static_cast<char>(bytes[100] ^ 1);
    auto update = database.prepare("UPDATE part SET bytes = ?1 WHERE number = ?2").value();
    ASSERT_TRUE(update.bind(1, sluice::test::as_bytes(bytes)).bind(2, number).run());
  }

  const sluice::test::TemporaryFolder folder;
  const std::string path = folder.file("state.db");
  const std::string target = folder.file("copy.db");
  std::unique_ptr<store::StateFile> file;
};

TEST_F(StateCommand, info_shows_a_file_in_use) {
  const Outcome outcome = run("info " + path);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.errors, "");
  for (const char* line : {"server version    0.1.0\n", "shards            2\n",
                           "last commit       2026-11-21T00:00:00.000Z, ", "epochs 3 to 4\n",
                           "run-time quotas   1\n", "quota classes     1\n"}) {
    EXPECT_NE(outcome.output.find(line), std::string::npos) << line << outcome.output;
  }
  commit(5);
  EXPECT_NE(run("info " + path).output.find("epochs 3 to 5\n"), std::string::npos);
}

TEST_F(StateCommand, info_prints_json) {
  const Outcome outcome = run("info --json " + path);
  const text::Json json = text::parse_json(outcome.output).value;
  EXPECT_EQ(json["file"], std::filesystem::canonical(path).string());
  EXPECT_EQ(json["parts"], 4);
  EXPECT_EQ(json["last_epoch"], 4);
  EXPECT_EQ(json["last_commit"], "2026-11-21T00:00:00.000Z");
  EXPECT_GT(json["wal_bytes"], 0);
}

TEST_F(StateCommand, check_finds_nothing_in_a_file_in_use) {
  const Outcome outcome = run("check " + path);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.output.starts_with(path + ": sound, 4 parts, epochs 3 to 4, last commit "))
      << outcome.output;
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(StateCommand, check_finds_a_flipped_bit) {
  flip_a_bit_of_part(1);
  const Outcome outcome = run("check " + path);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.errors, path + ": part 1: its checksum is wrong\n" + path +
                                ": not sound, 1 damaged part; restore a backup, or move it and the "
                                "FILE-wal beside it away to begin anew; `sluicegate state "
                                "recover` saves what is sound\n");
}

TEST_F(StateCommand, check_ends_with_its_hundredth_complaint) {
  for (uint64_t epoch = 5; epoch < 60; ++epoch) commit(epoch);
  execute("UPDATE part SET bytes = x'00'");
  const Outcome outcome = run("check " + path);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 101);
  EXPECT_NE(outcome.errors.find("not sound, 114 damaged parts; only the first 100 complaints"),
            std::string::npos)
      << outcome.errors;
}

TEST_F(StateCommand, check_finds_a_page_that_is_overwritten) {
  ASSERT_TRUE(file->close());
  std::string bytes = read_file(path);
  for (const size_t at : {size_t{16'384}, bytes.size() - 16'384}) {
    std::string damaged = bytes;
    damaged.replace(at, 16'384, 16'384, '\xff');
    write_file(path, damaged);
    const Outcome outcome = run("check " + path);
    EXPECT_EQ(outcome.exit_code, 1) << at;
    EXPECT_TRUE(outcome.errors.starts_with(path)) << outcome.errors;
  }
}

TEST_F(StateCommand, check_finds_a_missing_table) {
  execute("DROP TABLE part");
  const Outcome outcome = run("check " + path);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("a table is missing"), std::string::npos) << outcome.errors;
}

TEST_F(StateCommand, info_says_which_file_has_a_damaged_end) {
  flip_a_bit_of_part(4);
  EXPECT_NE(run("info " + path).output.find("unknown: the newest part is damaged"),
            std::string::npos);
}

TEST_F(StateCommand, backup_copies_a_file_in_use) {
  const Outcome outcome = run("backup " + path + " " + target);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.output.starts_with(target + ": ")) << outcome.output;
  EXPECT_NE(outcome.output.find(" copied, epochs 3 to 4, last commit 2026-11-21T00:00:00.000Z, "),
            std::string::npos)
      << outcome.output;
  commit(5);
  EXPECT_EQ(run("check " + target).exit_code, 0);
  EXPECT_EQ(store::StateFile::open({.path = target}).value()->last_epoch(), 4u);
}

TEST_F(StateCommand, backup_never_overwrites) {
  write_file(target, "mine");
  EXPECT_EQ(refusal("backup " + path + " " + target),
            target + ": it exists already (File exists); name a file that does not exist");
  EXPECT_EQ(read_file(target), "mine");
  EXPECT_NE(refusal("backup " + path + " " + path).find("it exists already"), std::string::npos);
  EXPECT_EQ(run("check " + path).exit_code, 0);
}

TEST_F(StateCommand, every_command_goes_on_beside_commits) {
  std::atomic<bool> ended = false;
  std::atomic<uint64_t> last = 4;
  std::thread server([&] {
    while (!ended) commit(++last);
  });
  for (int round = 0; round < 10; ++round) {
    const uint64_t before = last;
    EXPECT_EQ(run("check " + path).exit_code, 0);
    const Outcome info = run("info --json " + path);
    EXPECT_GE(text::parse_json(info.output).value["last_epoch"].get<uint64_t>() + 1, before);
    const std::string copy = target + std::to_string(round);
    EXPECT_EQ(run("backup " + path + " " + copy).exit_code, 0);
    EXPECT_EQ(run("check " + copy).exit_code, 0);
  }
  ended = true;
  server.join();
  EXPECT_EQ(run("check " + path).exit_code, 0);
}

TEST_F(StateCommand, refuses_what_is_no_state_file_with_cause_and_cure) {
  const std::string other = folder.file("other.db");
  const std::pair<const char*, const char*> contents[] = {
      {"", "it is empty; restore a backup, or delete it to begin anew"},
      {"# notes\n", "it is no state file of Sluicegate"}};
  for (const auto& [content, expected] : contents) {
    write_file(other, content);
    for (const std::string& words :
         {"info " + other, "check " + other, "backup " + other + " " + target}) {
      const std::string error = refusal(words);
      EXPECT_TRUE(error.starts_with(other + ": " + expected)) << words << ": " << error;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    }
    EXPECT_EQ(read_file(other), content);
  }
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(StateCommand, refuses_a_file_of_a_newer_version) {
  execute("PRAGMA user_version = 3");
  for (const std::string& words :
       {"info " + path, "check " + path, "backup " + path + " " + target}) {
    EXPECT_EQ(refusal(words),
              path +
                  ": a newer version of Sluicegate wrote it (it has version 3, this "
                  "program knows 2); start that version, or name another file");
  }
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(StateCommand, refuses_a_file_that_is_missing_and_makes_none) {
  const std::string missing = folder.file("no.db");
  for (const std::string& words :
       {"info " + missing, "check " + missing, "backup " + missing + " " + target}) {
    EXPECT_EQ(refusal(words),
              missing + ": there is no such file; name the file that the server has as --state");
  }
  EXPECT_EQ(
      refusal("info " + folder.path().string()),
      folder.path().string() + ": it is a folder; name the file that the server has as --state");
  EXPECT_FALSE(std::filesystem::exists(missing));
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(StateCommand, refuses_a_target_that_cannot_be_made) {
  const std::string error = refusal("backup " + path + " " + folder.file("no/copy.db"));
  EXPECT_TRUE(error.starts_with(folder.file("no/copy.db") + ": it cannot be opened")) << error;
}

TEST_F(StateCommand, needs_its_arguments) {
  for (const char* words : {"", "info", "check", "backup", "backup a", "info a b", "compact",
                            "compact a b", "mend a"}) {
    EXPECT_THROW(run(words), CLI::ParseError) << words;
  }
}

}  // namespace
}  // namespace sluice::cli
