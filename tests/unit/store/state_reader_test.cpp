// Goal: all that was written is read, as of one instant. Method: a file written by StateFile.
#include "store/state_reader.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/state_file.hpp"
#include "support/as_nobody.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

class StateReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file = StateFile::open({.path = path}).value();
    for (uint64_t epoch = 1; epoch <= 20; ++epoch) {
      const auto shard = static_cast<uint32_t>(epoch % 2);
      ASSERT_TRUE(commit_one(
          *file, OwnedCut(epoch, shard).part(1, std::string(100'000, static_cast<char>(epoch)))));
    }
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  std::unique_ptr<StateFile> file;
};

TEST_F(StateReaderTest, reads_the_newest_part_first) {
  StateReader reader = StateReader::open(path).value();
  const auto parts = test::read_parts(reader);
  ASSERT_EQ(parts.size(), 20u);
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t epoch = 20 - i;
    EXPECT_EQ(parts[i], (test::OwnedPart{epoch, static_cast<uint32_t>(epoch % 2), 1,
                                         std::string(100'000, static_cast<char>(epoch))}));
  }
  EXPECT_FALSE(reader.next_part().value()) << "and does not begin anew";
}

TEST_F(StateReaderTest, begins_anew_as_of_the_same_instant) {
  StateReader reader = StateReader::open(path).value();
  const auto parts = test::read_parts(reader);
  ASSERT_TRUE(commit_one(*file, OwnedCut(21, 0).part(1, "x"), 21));
  reader.begin_again();
  ASSERT_TRUE(reader.next_part().value());
  reader.begin_again();
  EXPECT_EQ(test::read_parts(reader), parts);
}

TEST_F(StateReaderTest, reads_the_parts_of_one_shard) {
  StateReader reader = StateReader::open(path).value();
  reader.only_shard(1);
  const auto parts = test::read_parts(reader);
  ASSERT_EQ(parts.size(), 10u);
  EXPECT_EQ(parts.front().epoch, 19u);
}

TEST_F(StateReaderTest, begins_again_with_all_parts_of_the_same_instant) {
  StateReader reader = StateReader::open(path).value();
  const auto all = test::read_parts(reader);
  ASSERT_TRUE(commit_one(*file, OwnedCut(21, 0).part(1, "x"), 21));
  reader.begin_again();
  reader.only_shard(1);
  ASSERT_TRUE(reader.next_part().value());
  reader.begin_again();
  EXPECT_EQ(test::read_parts(reader), all);
}

TEST_F(StateReaderTest, reads_on_several_threads_at_once) {
  std::vector<std::vector<test::OwnedPart>> found(4);
  std::vector<std::thread> threads;
  for (auto& parts : found) {
    threads.emplace_back([&] {
      StateReader reader = StateReader::open(path).value();
      parts = test::read_parts(reader);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(found[0].size(), 20u);
  for (const auto& parts : found) EXPECT_EQ(parts, found[0]);
  ASSERT_TRUE(commit_one(*file, OwnedCut(21, 0).part(1, "x"))) << "its locks are still there";
}

TEST_F(StateReaderTest, sees_one_instant_while_the_server_writes) {
  StateReader reader = StateReader::open(path).value();
  ASSERT_TRUE(commit_one(*file, OwnedCut(21, 0).part(1, "x").put("a", "{}", 1), 21));
  EXPECT_EQ(test::read_parts(reader).size(), 20u);
  EXPECT_TRUE(reader.run_time_quotas().value().empty());
  EXPECT_EQ(test::read_content(path).parts.size(), 1u);
}

TEST_F(StateReaderTest, reads_what_a_process_that_died_has_committed) {
  file.reset();
  EXPECT_TRUE(std::filesystem::exists(path + "-wal"));
  EXPECT_EQ(test::read_content(path).parts.size(), 20u);
  EXPECT_EQ(test::read_content(path).parts.size(), 20u) << "and a reader's end changes nothing";
}

class ReadOnlyTest : public StateReaderTest {
 protected:
  // Of a file whose name needs escapes in a URI.
  void SetUp() override {
    StateReaderTest::SetUp();
    ASSERT_TRUE(file->close());
    std::filesystem::rename(path, odd);
    ASSERT_EQ(::chmod(odd.c_str(), 0444), 0);
    ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  }
  void TearDown() override { ::chmod(folder.path().c_str(), 0755); }
  const std::string odd = folder.file("a?b#c%20d");
};

TEST_F(ReadOnlyTest, reads_a_file_that_it_may_not_write) {
  const test::AsNobody nobody;
  auto reader = StateReader::open(odd);
  ASSERT_TRUE(reader) << reader.error().text;
  EXPECT_EQ(test::read_parts(*reader).size(), 20u);
  EXPECT_TRUE(reader->expect_unchanged());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "the file and its lock";
}

TEST_F(ReadOnlyTest, notices_that_the_file_was_changed_meanwhile) {
  std::optional<StateReader> reader;
  {
    const test::AsNobody nobody;
    reader.emplace(StateReader::open(odd).value());
  }
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change it";
  test::write_file(odd + "-wal", "a commit");
  const auto changed = reader->expect_unchanged();
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, FailureKind::no_access);
  std::filesystem::remove(odd + "-wal");
  EXPECT_TRUE(reader->expect_unchanged());
  std::filesystem::last_write_time(odd, std::filesystem::file_time_type::clock::now());
  EXPECT_FALSE(reader->expect_unchanged());
}

TEST_F(ReadOnlyTest, reads_no_file_without_its_log) {
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  test::write_file(odd + "-wal", "a commit");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  const test::AsNobody nobody;
  const auto refused = StateReader::open(odd);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::no_access);
  EXPECT_NE(refused.error().text.find("FILE-wal belongs to it"), std::string::npos)
      << refused.error().text;
}

TEST_F(ReadOnlyTest, reads_no_file_that_it_may_not_read) {
  ASSERT_EQ(::chmod(odd.c_str(), 0000), 0);
  const test::AsNobody nobody;
  const auto refused = StateReader::open(odd);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::no_access);
  EXPECT_EQ(refused.error().detail.find("FILE-wal"), std::string::npos);
}

TEST_F(StateReaderTest, refuses_what_it_cannot_read) {
  const auto kind_of = [&](const std::string& name, const std::string& text) {
    test::write_file(folder.file(name), text);
    const auto refused = StateReader::open(folder.file(name));
    EXPECT_FALSE(refused);
    return refused ? FailureKind::io : refused.error().kind;
  };
  EXPECT_EQ(StateReader::open(folder.file("no")).error().kind, FailureKind::no_access);
  EXPECT_EQ(kind_of("empty", ""), FailureKind::empty);
  EXPECT_EQ(kind_of("text", std::string(5'000, 'x')), FailureKind::not_ours);
  EXPECT_EQ(kind_of("short", "SQLite"), FailureKind::not_ours);
  ASSERT_TRUE(file->close());
  std::string bytes = test::read_file(path);
  bytes[68] = 'X';
  EXPECT_EQ(kind_of("other", bytes), FailureKind::not_ours);
  bytes = test::read_file(path);
  bytes[63] = 9;
  EXPECT_EQ(kind_of("newer", bytes), FailureKind::newer_version);
}

TEST_F(StateReaderTest, reports_damage_where_it_meets_it) {
  ASSERT_TRUE(file->close());
  std::string bytes = test::read_file(path);
  bytes.replace(bytes.size() / 2, 64 * 1'024, 64 * 1'024, '\xff');
  test::write_file(path, bytes);
  StateReader reader = StateReader::open(path).value();
  size_t read = 0;
  while (true) {
    const auto part = reader.next_part();
    if (!part) {
      EXPECT_EQ(part.error().kind, FailureKind::corrupt) << part.error().text;
      break;
    }
    ASSERT_TRUE(*part) << "the damage was not seen";
    ++read;
  }
  EXPECT_LT(read, 20u);
  EXPECT_FALSE(reader.next_part().value()) << "nothing comes after a failure";
}

}  // namespace
}  // namespace sluice::store
