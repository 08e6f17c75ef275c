// Goal: a file's text, or the reason why it cannot be read. Method: files in a folder of the test's
// own, and paths that lead to no file.
#include "policy/text_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace sluice::policy {
namespace {

class TextFileTest : public testing::Test {
 protected:
  TextFileTest() { std::filesystem::create_directories(folder_); }
  ~TextFileTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string written(const std::string& text) const {
    std::ofstream(path("file"), std::ios::binary) << text;
    return path("file");
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("text_file_test." + std::to_string(::getpid()));
};

TEST_F(TextFileTest, reads_a_whole_file) {
  const std::string text = std::string(200'000, 'a') + std::string("\0\r\n\xff", 4);
  const TextFile read = read_text_file(written(text));
  EXPECT_EQ(read.text, text);
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read_text_file(written("")).error, "");
}

TEST_F(TextFileTest, reads_more_than_the_bound_of_a_large_file) {
  const std::string file = written("x");
  std::filesystem::resize_file(file, 2 * file_bytes_max);
  const size_t bytes = read_text_file(file).text.size();
  EXPECT_GT(bytes, file_bytes_max);
  EXPECT_LE(bytes, file_bytes_max + 64 * 1024);
}

TEST_F(TextFileTest, reports_why_it_cannot_read) {
  EXPECT_EQ(read_text_file(path("none")).error, "No such file or directory");
  EXPECT_EQ(read_text_file(path(".")).error, "Is a directory");
  EXPECT_EQ(read_text_file("/dev/null").error, "it is not a regular file");
}

TEST_F(TextFileTest, does_not_wait_for_a_pipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_text_file(path("pipe")).error, "it is not a regular file");
}

}  // namespace
}  // namespace sluice::policy
