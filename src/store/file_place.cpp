#include "store/file_place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/time.hpp"

namespace sluice::store {
namespace {

// Of statfs(2) and linux/magic.h, which lacks some.
constexpr std::array<uint32_t, 9> network_types{
    0x6969,      // NFS
    0x517B,      // SMB
    0xFE534D42,  // SMB2
    0xFF534D42,  // CIFS
    0x01021997,  // 9p
    0x00C36400,  // Ceph
    0x5346414F,  // AFS
    0x0BD00BD0,  // Lustre
    0x7461636F,  // OCFS2
};

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

std::string real_path(std::string_view path) {
  std::error_code error;
  const std::filesystem::path given = std::filesystem::absolute(path, error);
  const std::filesystem::path real = std::filesystem::weakly_canonical(given, error);
  return error ? given.string() : real.string();
}

std::optional<FileStatus> status_of(const std::string& path) noexcept {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileStatus{
      .identity = {.device = status.st_dev, .inode = status.st_ino},
      .bytes = static_cast<uint64_t>(status.st_size),
      .modified_wall_ns = status.st_mtim.tv_sec * base::ns_per_s + status.st_mtim.tv_nsec};
}

// To open a pipe would wait for its other end.
Result<void> check_kind(const std::string& real_path) {
  struct stat status {};
  if (::lstat(real_path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return {};
  if (S_ISLNK(status.st_mode)) {
    return fail(FailureKind::no_access, real_path, "it is a symbolic link to what is not there");
  }
  return fail(FailureKind::not_ours, real_path,
              S_ISDIR(status.st_mode) ? "it is a folder" : "it is no regular file");
}

Result<void> expect_no_log(const std::string& path) {
  const auto log = status_of(path + "-wal");
  if (!log || log->bytes == 0) return {};
  return fail(FailureKind::moved, path, "there is a FILE-wal without its file");
}

bool is_at(const io::FileDescriptor& file, const std::string& path) noexcept {
  struct stat opened {};
  if (::fstat(file.get(), &opened) != 0) return false;
  const auto at_path = status_of(path);
  return at_path && at_path->identity == FileIdentity{opened.st_dev, opened.st_ino};
}

bool is_on_network(const std::string& path) noexcept {
  struct statfs file_system {};
  if (::statfs(path.c_str(), &file_system) != 0) return false;
  return is_network_type(static_cast<uint64_t>(file_system.f_type));
}

// Some kernels extend the sign of 32 bits.
bool is_network_type(uint64_t statfs_type) noexcept {
  return std::ranges::count(network_types, static_cast<uint32_t>(statfs_type)) > 0;
}

Result<void> sync_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  const io::FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) return fail_to_open(folder, errno);
  if (::fsync(opened.get()) != 0) return fail(FailureKind::fsync, folder, error_text(errno));
  return {};
}

}  // namespace sluice::store
