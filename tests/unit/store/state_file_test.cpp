// Goal: what was committed is found again; every trouble is reported with its kind, and a file that
// is refused stays as it is. Method: real files, read back by StateReader. crash_test.cpp has power
// failures and failing disks.
#include "store/state_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "store/schema.hpp"
#include "support/as_nobody.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using std::chrono::milliseconds;
using test::OwnedCut;

class StateFileTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<StateFile>> try_open() {
    return StateFile::open({.path = path, .lock_patience = milliseconds(0)});
  }

  std::unique_ptr<StateFile> open() {
    auto file = try_open();
    EXPECT_TRUE(file) << file.error().text;
    return file ? std::move(*file) : nullptr;
  }

  // A clean file with twenty parts, each of a leaf page and one behind it.
  void make_filled() {
    const auto file = open();
    for (uint64_t epoch = 1; epoch <= 20; ++epoch) {
      const OwnedCut cut = OwnedCut(epoch, 0).part(1, std::string(60'000, 'p'));
      ASSERT_TRUE(commit_one(*file, cut));
    }
    ASSERT_TRUE(file->close());
  }

  // The file must be refused for this reason, and stay as it is.
  void expect_refused(FailureKind kind) {
    const std::string before = test::read_file(path);
    const std::string log_before = test::read_file(path + "-wal");
    const auto refused = try_open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(failure_name(refused.error().kind), failure_name(kind)) << refused.error().text;
    EXPECT_EQ(test::read_file(path), before);
    EXPECT_EQ(test::read_file(path + "-wal"), log_before);
  }

  static void expect_failure(const Result<void>& done, FailureKind kind) {
    ASSERT_FALSE(done);
    EXPECT_EQ(failure_name(done.error().kind), failure_name(kind)) << done.error().text;
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
};

TEST_F(StateFileTest, keeps_what_was_committed_over_a_clean_end) {
  auto file = open();
  EXPECT_TRUE(file->is_new());
  EXPECT_EQ(file->path(), real_path(path));
  EXPECT_EQ(file->last_epoch(), 0u);
  const std::vector<MetaValue> meta{{"seed", "17"}};
  file->set_meta(meta);
  ASSERT_TRUE(commit_one(
      *file, OwnedCut(8, 1).part(2, "bytes").put("a", "{}", 5).quota_class(9, "{\"x\":1}")));
  EXPECT_EQ(file->last_epoch(), 8u);
  ASSERT_TRUE(file->close());
  EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(path + "-shm"));
  EXPECT_EQ(test::read_content(path), (test::Content{.parts = {{8, 1, 2, "bytes"}},
                                                     .quotas = {{"a", "{}", 5}},
                                                     .classes = {{9, "{\"x\":1}"}},
                                                     .meta = {{"seed", "17"}}}));
  EXPECT_EQ(try_open().error().kind, FailureKind::in_use) << "its lock lives as long as the object";
}

TEST_F(StateFileTest, writes_its_meta_values_with_the_first_commit) {
  const std::vector<MetaValue> meta{{"seed", "17"}};
  open()->set_meta(meta);
  EXPECT_TRUE(test::read_content(path).meta.empty()) << "no server has run with it";
  const auto file = open();
  file->set_meta(meta);
  ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a")));
  EXPECT_EQ(test::read_content(path).meta.size(), 1u);
}

TEST_F(StateFileTest, keeps_what_was_committed_when_its_process_dies) {
  open();
  {
    const auto file = open();
    EXPECT_FALSE(file->is_new());
    ASSERT_TRUE(commit_one(*file, OwnedCut(3, 0).part(1, "a")));
  }
  EXPECT_GT(std::filesystem::file_size(path + "-wal"), 0u);
  const auto file = open();
  EXPECT_EQ(file->last_epoch(), 3u);
  ASSERT_TRUE(commit_one(*file, OwnedCut(4, 0).part(1, "b")));
  EXPECT_EQ(test::read_content(path).parts.size(), 2u);
}

TEST_F(StateFileTest, lets_only_its_user_read_its_files) {
  const auto file = open();
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    struct stat status {};
    ASSERT_EQ(::stat((path + suffix).c_str(), &status), 0) << suffix;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << suffix;
  }
}

TEST_F(StateFileTest, lets_no_second_server_in_by_any_path) {
  const auto file = open();
  expect_refused(FailureKind::in_use);
  std::filesystem::create_symlink(path, folder.file("link"));
  const auto refused =
      StateFile::open({.path = folder.file("link"), .lock_patience = milliseconds(0)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::in_use);
}

TEST_F(StateFileTest, knows_the_bytes_of_its_log_and_files) {
  auto file = open();
  ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, std::string(100'000, 'a'))));
  EXPECT_EQ(file->size().log_bytes, 100'000u);
  EXPECT_EQ(file->size().file_bytes,
            std::filesystem::file_size(path) + std::filesystem::file_size(path + "-wal"));
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, std::string(1'000, 'b')), 2));
  EXPECT_EQ(file->size().log_bytes, 1'000u);
  file.reset();
  EXPECT_EQ(open()->size().log_bytes, 1'000u);
}

TEST_F(StateFileTest, copies_a_long_log_into_the_file_and_begins_it_anew) {
  const auto file = StateFile::open({.path = path, .checkpoint_bytes = 200'000}).value();
  const auto commit = [&](uint64_t epoch) {
    ASSERT_TRUE(commit_one(*file, OwnedCut(epoch, 0).part(1, std::string(60'000, 'a'))));
    ASSERT_TRUE(file->tidy());
  };
  for (uint64_t epoch = 1; epoch <= 40; ++epoch) commit(epoch);
  EXPECT_GT(std::filesystem::file_size(path), 30 * 60'000u);
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), 500'000u);
}

// Of an earlier version.
TEST_F(StateFileTest, goes_on_with_the_pages_of_a_file_and_measures_its_log_by_them) {
  ASSERT_TRUE(open()->close());
  ASSERT_TRUE(Database::open(path, Access::write, nullptr)
                  ->execute("PRAGMA journal_mode=DELETE; PRAGMA page_size=16384; VACUUM;"
                            "PRAGMA journal_mode=WAL;"));
  const auto bytes = std::filesystem::file_size(path);
  const auto file = StateFile::open({.path = path, .checkpoint_bytes = 210'000}).value();
  const auto commit = [&](uint64_t epoch) {  // five pages
    ASSERT_TRUE(commit_one(*file, OwnedCut(epoch, 0).part(1, std::string(60'000, 'a'))));
    ASSERT_TRUE(file->tidy());
  };
  for (const uint64_t epoch : {1, 2}) commit(epoch);
  EXPECT_EQ(std::filesystem::file_size(path), bytes);
  commit(3);
  EXPECT_GT(std::filesystem::file_size(path), bytes + 3 * 60'000);
  Database database = Database::open(path, Access::read, nullptr).value();
  EXPECT_EQ(database.integer("PRAGMA page_size").value(), 16'384);
}

TEST_F(StateFileTest, does_not_write_what_it_deletes) {
  make_filled();
  const auto file = open();
  ASSERT_TRUE(commit_one(*file, OwnedCut(21, 0).part(1, "a"), 21));
  // The pages of the old parts, about 40, are only taken from their table.
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), 10 * (page_bytes + 100));
}

TEST_F(StateFileTest, uses_the_room_of_what_it_deleted) {
  make_filled();
  const auto file = open();
  const auto bytes = std::filesystem::file_size(path);
  for (uint64_t epoch = 21; epoch <= 60; ++epoch) {
    const OwnedCut cut = OwnedCut(epoch, 0).part(1, std::string(60'000, 'p'));
    ASSERT_TRUE(commit_one(*file, cut, epoch - 10));
  }
  ASSERT_TRUE(file->close());
  EXPECT_LE(std::filesystem::file_size(path), bytes + 4 * page_bytes);
}

TEST_F(StateFileTest, changes_nothing_while_another_program_writes) {
  const auto file = open();
  Database other = Database::open(path, Access::write, nullptr).value();
  ASSERT_TRUE(other.execute("BEGIN IMMEDIATE"));
  expect_failure(commit_one(*file, OwnedCut(1, 0).part(1, "a")), FailureKind::busy);
  EXPECT_EQ(file->last_epoch(), 0u);
  EXPECT_EQ(file->size().log_bytes, 0u);
  ASSERT_TRUE(other.execute("ROLLBACK"));
  EXPECT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a")));
  EXPECT_EQ(test::read_content(path).parts.size(), 1u);
}

TEST_F(StateFileTest, ends_cleanly_beside_a_reader) {
  const auto file = open();
  ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a")));
  auto reader = StateReader::open(path).value();
  ASSERT_TRUE(reader.next_part().value());
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, "b")));
  EXPECT_TRUE(file->close());
  EXPECT_EQ(test::read_content(path).parts.size(), 2u);
}

TEST_F(StateFileTest, refuses_an_empty_file) {
  test::write_file(path, "");
  expect_refused(FailureKind::empty);
}

TEST_F(StateFileTest, refuses_files_of_others) {
  test::write_file(path, std::string(100'000, 'x'));
  expect_refused(FailureKind::not_ours);
  std::filesystem::remove(path);
  make_filled();
  std::string bytes = test::read_file(path);
  bytes[68] = 'X';
  test::write_file(path, bytes);
  expect_refused(FailureKind::not_ours);
}

TEST_F(StateFileTest, refuses_a_file_of_a_newer_version) {
  make_filled();
  std::string bytes = test::read_file(path);
  bytes[63] = 3;
  test::write_file(path, bytes);
  expect_refused(FailureKind::newer_version);
}

TEST_F(StateFileTest, refuses_a_file_that_is_damaged_anywhere) {
  make_filled();
  const std::string sound = test::read_file(path);
  const size_t pages = sound.size() / page_bytes;
  ASSERT_GT(pages, 35u);
  for (size_t page = 0; page < pages; ++page) {
    std::string bytes = sound;
    bytes.replace(page * page_bytes + 100, 4'096, 4'096, '\xff');
    bytes.replace(page * page_bytes + (page == 0 ? 100 : 0), 100, 100, '\xff');
    test::write_file(path, bytes);
    const auto refused = try_open();
    ASSERT_FALSE(refused) << "page " << page;
    EXPECT_EQ(refused.error().kind, FailureKind::damaged) << refused.error().text;
    EXPECT_EQ(test::read_file(path), bytes);
  }
}

TEST_F(StateFileTest, refuses_a_file_that_was_cut_off) {
  make_filled();
  const std::string sound = test::read_file(path);
  for (const size_t bytes : {sound.size() - 1, sound.size() / 2, size_t{page_bytes}, size_t{100}}) {
    test::write_file(path, sound.substr(0, bytes));
    expect_refused(FailureKind::damaged);
  }
}

TEST_F(StateFileTest, opens_without_checking_every_page_when_asked) {
  {
    const auto file = open();
    ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, std::string(1'000'000, 'p'))));
    ASSERT_TRUE(file->close());
  }
  std::string bytes = test::read_file(path);
  bytes.replace(bytes.size() / 2, 40'000, 40'000, '\xff');
  test::write_file(path, bytes);
  expect_refused(FailureKind::damaged);
  EXPECT_TRUE(StateFile::open({.path = path, .checks_pages = false}));
}

TEST_F(StateFileTest, refuses_a_log_without_its_file) {
  {
    const auto file = open();
    ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a")));
  }
  std::filesystem::rename(path, folder.file("moved"));
  expect_refused(FailureKind::moved);
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::rename(folder.file("moved"), path);
  EXPECT_EQ(open()->last_epoch(), 1u);
}

TEST_F(StateFileTest, begins_anew_beside_an_empty_log) {
  test::write_file(path + "-wal", "");
  const auto file = open();
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->is_new());
}

TEST_F(StateFileTest, refuses_what_it_may_not_write) {
  make_filled();
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::unlink((path + ".lock").c_str()), 0);
  {
    const test::AsNobody nobody;
    expect_refused(FailureKind::readonly);
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(::unlink((path + ".lock").c_str()), 0);
  const test::AsNobody nobody;
  const auto refused = try_open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::no_access) << refused.error().text;
}

TEST_F(StateFileTest, refuses_a_folder_that_it_may_not_write) {
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  const test::AsNobody nobody;
  const auto refused = try_open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::no_access);
}

TEST_F(StateFileTest, notices_that_its_files_were_removed_moved_or_replaced) {
  for (const char* suffix : {"", "-wal"}) {
    for (const char* how : {"removed", "moved", "replaced"}) {
      SCOPED_TRACE(std::string(how) + " FILE" + suffix);
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        std::filesystem::remove(entry.path());
      }
      const auto file = open();
      ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a")));
      const std::string victim = path + suffix;
      if (how == std::string("removed")) std::filesystem::remove(victim);
      if (how == std::string("moved")) std::filesystem::rename(victim, folder.file("moved"));
      if (how == std::string("replaced")) {
        std::filesystem::copy_file(victim, folder.file("copy"));
        std::filesystem::rename(folder.file("copy"), victim);
      }
      expect_failure(commit_one(*file, OwnedCut(2, 0).part(1, "b")), FailureKind::moved);
      expect_failure(file->reopen(), FailureKind::moved);
      EXPECT_TRUE(file->close()) << "it is closed";
    }
  }
}

TEST_F(StateFileTest, touches_no_file_that_replaced_its_own) {
  const auto file = open();
  ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a")));
  for (const char* suffix : {"", "-wal"}) {
    std::filesystem::remove(path + suffix);
    test::write_file(path + suffix, "another one");
  }
  expect_failure(file->close(), FailureKind::moved);
  EXPECT_EQ(test::read_file(path), "another one");
  EXPECT_EQ(test::read_file(path + "-wal"), "another one");
}

TEST_F(StateFileTest, goes_on_after_it_was_reopened) {
  const auto file = open();
  ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a")));
  ASSERT_TRUE(file->reopen());
  EXPECT_EQ(file->last_epoch(), 1u);
  EXPECT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a"))) << "it is there already";
  EXPECT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, "b")));
  EXPECT_EQ(test::read_content(path).parts.size(), 2u);
}

TEST_F(StateFileTest, makes_a_new_file_where_an_earlier_attempt_died) {
  test::write_file(path + ".new", "half");
  EXPECT_TRUE(open()->is_new());
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

}  // namespace
}  // namespace sluice::store
