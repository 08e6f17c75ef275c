#include "peer/secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "io/file_descriptor.hpp"

namespace sluice::peer {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw std::runtime_error("--peer-secret-file " + path + ": " + why);
}

// One byte more than a secret with its line end may have.
std::string read_beginning(const std::string& path, int descriptor) {
  std::array<char, secret_bytes_max + 3> bytes{};
  size_t count = 0;
  while (count < bytes.size()) {
    const ssize_t got = ::read(descriptor, bytes.data() + count, bytes.size() - count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, std::strerror(errno));
    if (got == 0) break;
    count += static_cast<size_t>(got);
  }
  return {bytes.data(), count};
}

void remove_line_end(std::string& text) {
  if (!text.ends_with('\n')) return;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

void check(const std::string& path, const std::string& secret) {
  const std::string range = std::to_string(secret_bytes_min) + " to " +
                            std::to_string(secret_bytes_max) +
                            " bytes in one line (openssl rand -hex 32 makes one)";
  if (secret.empty()) fail(path, "it is empty: a secret has " + range);
  if (secret.find('\n') != secret.npos) fail(path, "it has several lines: a secret has " + range);
  if (secret.size() < secret_bytes_min) fail(path, "it is too short: a secret has " + range);
  if (secret.size() > secret_bytes_max) fail(path, "it is too long: a secret has " + range);
  if (std::ranges::any_of(secret, is_control)) {
    fail(path, "it has control characters: a secret is text, " + range);
  }
}

}  // namespace

Secret read_secret_file(const std::string& path) {
  // With O_NONBLOCK, open() does not wait for the writer of a pipe.
  const io::FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file.is_open()) fail(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path, "it is not a regular file");
  Secret secret{.text = read_beginning(path, file.get()), .warning = {}};
  remove_line_end(secret.text);
  check(path, secret.text);
  constexpr mode_t others = S_IRWXG | S_IRWXO;
  if ((status.st_mode & others) != 0) {
    secret.warning = "--peer-secret-file " + path +
                     ": others than its owner have access to the secret: chmod 400 " + path;
  }
  return secret;
}

}  // namespace sluice::peer
