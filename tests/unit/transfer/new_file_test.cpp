// Goal: a file has its name only when it is whole, and replaces none. Method: real files.
#include "transfer/new_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::transfer {
namespace {

using Names = std::vector<std::string>;

TEST(NewFile, has_its_name_when_it_is_published) {
  const test::TemporaryFolder folder;
  {
    NewFile file = NewFile::create(folder.file("f")).value();
    ASSERT_TRUE(file.append("one "));
    ASSERT_TRUE(file.append("two"));
    EXPECT_EQ(std::filesystem::path(file.path()).parent_path(), folder.path());
    EXPECT_FALSE(std::filesystem::exists(folder.file("f")));
    ASSERT_TRUE(file.publish());
  }
  EXPECT_EQ(test::names_in(folder.path()), Names{"f"});
  EXPECT_EQ(test::file_text(folder.file("f")), "one two");
  struct stat status {};
  ASSERT_EQ(::stat(folder.file("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(NewFile, vanishes_when_it_is_not_published) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(NewFile::create(folder.file("f")).value().append("one"));
  EXPECT_EQ(test::names_in(folder.path()), Names{});
}

TEST(NewFile, replaces_no_file) {
  const test::TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("f")).value();
  test::write_text(folder.file("f"), "mine");
  EXPECT_EQ(test::lines_of(NewFile::create(folder.file("f"))),
            "exists already; name a file that does not exist\n");
  EXPECT_EQ(test::lines_of(file.publish()), "exists already; name a file that does not exist\n");
  EXPECT_EQ(test::file_text(folder.file("f")), "mine");
}

TEST(NewFile, replaces_no_link_that_leads_nowhere) {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink(folder.file("nothing"), folder.file("f"));
  EXPECT_FALSE(NewFile::create(folder.file("f")));
  EXPECT_EQ(test::names_in(folder.path()), Names{"f"});
}

TEST(NewFile, needs_a_folder) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(test::lines_of(NewFile::create(folder.file("none/f"))),
            "it cannot be opened (No such file or directory)\n");
}

TEST(NewFile, reports_a_full_disk) {
  struct rlimit before {};
  const test::TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("f")).value();
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 10, .rlim_max = before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string complaint = test::lines_of(file.append(std::string(100, 'x')));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(complaint, "cannot be written: File too large\n");
}

}  // namespace
}  // namespace sluice::transfer
