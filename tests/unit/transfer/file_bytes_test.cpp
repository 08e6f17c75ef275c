// Goal: only regular files of a bounded size are read. Method: real files, one of them sparse.
#include "transfer/file_bytes.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::transfer {
namespace {

TEST(FileBytes, reads_a_file_or_its_begin) {
  const test::TemporaryFolder folder;
  const std::string text("a\0b\n", 4);
  test::write_text(folder.file("f"), text);
  EXPECT_EQ(read_all(folder.file("f")).value(), text);
  EXPECT_EQ(read_begin(folder.file("f"), 2).value(), text.substr(0, 2));
  EXPECT_EQ(read_begin(folder.file("f"), 20).value(), text);
}

TEST(FileBytes, refuses_what_is_no_file) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(test::lines_of(read_all(folder.file("f"))),
            "cannot be opened: No such file or directory\n");
  EXPECT_EQ(test::lines_of(read_all(folder.path().string())), "is no regular file\n");
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(test::lines_of(read_all(folder.file("pipe"))), "is no regular file\n");
}

TEST(FileBytes, refuses_a_file_that_is_too_large) {
  const test::TemporaryFolder folder;
  test::write_text(folder.file("f"), "x");
  std::filesystem::resize_file(folder.file("f"), go_ratelimit_file_bytes_max + 1);
  EXPECT_EQ(test::lines_of(read_all(folder.file("f"))), "is larger than 256 MiB\n");
  EXPECT_EQ(read_begin(folder.file("f"), 1).value(), "x");
}

}  // namespace
}  // namespace sluice::transfer
