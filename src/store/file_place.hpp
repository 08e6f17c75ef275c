// Where a file lies: its real path, whether that still leads to it, its folder, its file system.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file_descriptor.hpp"
#include "store/failure.hpp"

namespace sluice::store {

// Absolute and without symbolic links, so that all paths of a file share one lock; the file itself
// need not exist.
std::string real_path(std::string_view path);

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

struct FileStatus {
  FileIdentity identity;
  uint64_t bytes = 0;
  int64_t modified_wall_ns = 0;
  bool operator==(const FileStatus&) const = default;
};

// By path and without opening it: to close a descriptor of a database would drop SQLite's locks.
// Empty: there is no such file, or no way to it.
std::optional<FileStatus> status_of(const std::string& path) noexcept;

// Whether there is a file, or may be one: not a folder, a device, or a link that leads nowhere.
Result<void> check_kind(const std::string& real_path);

// Where there is no such file: fails if there is a FILE-wal. That has commits of a file that was
// moved away, and SQLite would mix them into a new one. A reader of a file that was closed cleanly
// leaves an empty one.
Result<void> expect_no_log(const std::string& path);

// Whether the path still leads to this open file.
bool is_at(const io::FileDescriptor& file, const std::string& path) noexcept;

// NFS, SMB, 9p and the like, whose locks and fsync cannot be relied upon.
bool is_on_network(const std::string& path) noexcept;
bool is_network_type(uint64_t statfs_type) noexcept;

// Makes names that were added to or removed from the file's folder durable.
Result<void> sync_folder_of(const std::string& path);

}  // namespace sluice::store
