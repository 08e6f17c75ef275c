// Goal: a secret is the line that the operator wrote, and no other content is taken as one.
// Method: files by example.
#include "peer/secret_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <stdexcept>

#include "tests/support/temporary_folder.hpp"

namespace sluice::peer {
namespace {

class SecretFile : public testing::Test {
 protected:
  std::string written(const std::string& text, mode_t mode = 0400) {
    const std::string path = folder_.path() / "secret";
    static_cast<void>(::remove(path.c_str()));
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  static std::string error_of(const std::string& path) {
    try {
      return "none: " + read_secret_file(path).text;
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  test::TemporaryFolder folder_;
};

const std::string good = "0123456789abcdef";

TEST_F(SecretFile, is_its_line) {
  for (const char* end : {"", "\n", "\r\n"}) {
    const Secret secret = read_secret_file(written(good + end));
    EXPECT_EQ(secret.text, good);
    EXPECT_EQ(secret.warning, "");
  }
}

TEST_F(SecretFile, may_have_256_bytes) {
  const std::string longest(secret_bytes_max, 'x');
  EXPECT_EQ(read_secret_file(written(longest + "\r\n")).text, longest);
  const std::string path = written(longest + "x");
  EXPECT_EQ(error_of(path), "--peer-secret-file " + path +
                                ": it is too long: a secret has 16 to 256 bytes in one line "
                                "(openssl rand -hex 32 makes one)");
  EXPECT_NE(error_of(written(longest + "x\r\n")).find("too long"), std::string::npos);
  EXPECT_NE(error_of(written(std::string(100'000, 'x'))).find("too long"), std::string::npos);
}

TEST_F(SecretFile, has_16_bytes_at_least) {
  EXPECT_NE(error_of(written(good.substr(1) + "\n")).find("too short"), std::string::npos);
  EXPECT_NE(error_of(written("")).find("it is empty"), std::string::npos);
  EXPECT_NE(error_of(written("\n")).find("it is empty"), std::string::npos);
}

TEST_F(SecretFile, is_one_line_of_text) {
  EXPECT_NE(error_of(written(good + "\n" + good + "\n")).find("several lines"), std::string::npos);
  EXPECT_NE(error_of(written(good + "\n\n")).find("several lines"), std::string::npos);
  for (const char control : {'\0', '\t', '\r', '\x7f'}) {
    EXPECT_NE(error_of(written(good + control + good)).find("control characters"),
              std::string::npos);
  }
}

TEST_F(SecretFile, may_have_any_other_byte) {
  const std::string secret = "k\xc3\xa4se \xff\x80 and more bytes";
  EXPECT_EQ(read_secret_file(written(secret)).text, secret);
}

TEST_F(SecretFile, warns_if_others_have_access) {
  for (const mode_t mode : {0440, 0404, 0420, 0402}) {
    const std::string path = written(good, mode);
    EXPECT_EQ(read_secret_file(path).warning,
              "--peer-secret-file " + path +
                  ": others than its owner have access to the secret: chmod 400 " + path)
        << mode;
  }
  EXPECT_EQ(read_secret_file(written(good, 0600)).warning, "");
}

TEST_F(SecretFile, has_to_be_a_file) {
  const std::string folder = folder_.path();
  EXPECT_EQ(error_of(folder + "/none"),
            "--peer-secret-file " + folder + "/none: No such file or directory");
  EXPECT_EQ(error_of(folder), "--peer-secret-file " + folder + ": it is not a regular file");
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_of(pipe), "--peer-secret-file " + pipe + ": it is not a regular file");
}

}  // namespace
}  // namespace sluice::peer
