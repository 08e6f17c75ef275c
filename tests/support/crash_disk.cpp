#include "support/crash_disk.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <utility>

#include "base/splitmix.hpp"

namespace sluice::test {
namespace {

constexpr uint64_t sector_bytes = 512;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void set_content(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
}

void put(std::string& content, uint64_t at, std::string_view bytes) {
  if (bytes.empty()) return;
  if (content.size() < at + bytes.size()) content.resize(at + bytes.size(), '\0');
  content.replace(at, bytes.size(), bytes);
}

// One open file: SQLite's part, ours, and behind it the file of the VFS below.
struct OpenFile {
  sqlite3_file base;
  CrashDisk* disk;
  std::string* path;  // null: a temporary file without a name

  sqlite3_file* below() noexcept { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

OpenFile& ours(sqlite3_file* file) noexcept {
  return *reinterpret_cast<OpenFile*>(file);
}

sqlite3_vfs* system_vfs() noexcept {
  return sqlite3_vfs_find(nullptr);
}

}  // namespace

struct CrashDiskCalls {
  static CrashDisk& disk_of(sqlite3_vfs* vfs) noexcept {
    return *static_cast<CrashDisk*>(vfs->pAppData);
  }

  static int open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags,
                  int* flags_out) {
    CrashDisk& disk = disk_of(vfs);
    OpenFile& opened = *new (file) OpenFile{};  // pMethods is null: SQLite need not close it
    const bool is_new =
        name != nullptr && (flags & SQLITE_OPEN_CREATE) != 0 && !std::filesystem::exists(name);
    const auto call = is_new ? CrashDisk::Call::change : CrashDisk::Call::read;
    if (const int code = disk.begin_call(call)) return code;
    const int code = system_vfs()->xOpen(system_vfs(), name, opened.below(), flags, flags_out);
    if (code != SQLITE_OK) return code;
    opened.base.pMethods = &methods;
    opened.disk = &disk;
    if (name != nullptr) opened.path = new std::string(name);
    const std::lock_guard lock(disk.mutex_);
    if (name != nullptr) disk.image_of(name, is_new);
    return SQLITE_OK;
  }

  static int close(sqlite3_file* file) {
    OpenFile& opened = ours(file);
    delete opened.path;
    return opened.below()->pMethods->xClose(opened.below());
  }

  static int read(sqlite3_file* file, void* target, int bytes, sqlite3_int64 at) {
    OpenFile& opened = ours(file);
    if (const int code = opened.disk->begin_call(CrashDisk::Call::read)) return code;
    return opened.below()->pMethods->xRead(opened.below(), target, bytes, at);
  }

  static int write(sqlite3_file* file, const void* source, int bytes, sqlite3_int64 at) {
    OpenFile& opened = ours(file);
    if (opened.path == nullptr) {
      return opened.below()->pMethods->xWrite(opened.below(), source, bytes, at);
    }
    sqlite3_int64 size_bytes = 0;
    opened.below()->pMethods->xFileSize(opened.below(), &size_bytes);
    uint64_t written_bytes = 0;
    const int result =
        opened.disk->begin_write(static_cast<uint64_t>(size_bytes), static_cast<uint64_t>(at),
                                 static_cast<uint64_t>(bytes), written_bytes);
    if (written_bytes == 0) return result;
    const int code = opened.below()->pMethods->xWrite(opened.below(), source,
                                                      static_cast<int>(written_bytes), at);
    if (code != SQLITE_OK) return code;
    const std::lock_guard lock(opened.disk->mutex_);
    opened.disk->image_of(*opened.path, false)
        .unsynced.push_back(
            {.at = static_cast<uint64_t>(at),
             .bytes = std::string(static_cast<const char*>(source), written_bytes)});
    if (result != SQLITE_OK) errno = ENOSPC;
    return result;
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size_bytes) {
    OpenFile& opened = ours(file);
    if (const int code = opened.disk->begin_call(CrashDisk::Call::change)) return code;
    const int code = opened.below()->pMethods->xTruncate(opened.below(), size_bytes);
    if (code != SQLITE_OK || opened.path == nullptr) return code;
    const std::lock_guard lock(opened.disk->mutex_);
    opened.disk->image_of(*opened.path, false)
        .unsynced.push_back({.truncates = true, .at = static_cast<uint64_t>(size_bytes)});
    return SQLITE_OK;
  }

  // Nothing below needs to be synced: the disk is this one.
  static int sync(sqlite3_file* file, int /*flags*/) {
    OpenFile& opened = ours(file);
    const int code = opened.disk->begin_call(CrashDisk::Call::sync);
    if (opened.path == nullptr) return code;
    const std::lock_guard lock(opened.disk->mutex_);
    return opened.disk->sync(opened.disk->image_of(*opened.path, false), code);
  }

  static int remove(sqlite3_vfs* vfs, const char* name, int syncs_folder) {
    CrashDisk& disk = disk_of(vfs);
    if (const int code = disk.begin_call(CrashDisk::Call::change)) return code;
    const int code = system_vfs()->xDelete(system_vfs(), name, 0);
    if (code != SQLITE_OK) return code;
    const std::lock_guard lock(disk.mutex_);
    const auto found = disk.images_.find(name);
    if (found != disk.images_.end()) {
      if (!found->second.may_vanish) disk.deleted_[name] = found->second.durable;
      disk.images_.erase(found);
    }
    if (syncs_folder != 0) disk.deleted_.clear();
    return SQLITE_OK;
  }

  static int access(sqlite3_vfs* /*vfs*/, const char* name, int flags, int* result) {
    return system_vfs()->xAccess(system_vfs(), name, flags, result);
  }

  // Calls that reach the file below as they are.
  static int file_size(sqlite3_file* file, sqlite3_int64* size_bytes) {
    return ours(file).below()->pMethods->xFileSize(ours(file).below(), size_bytes);
  }
  static int lock(sqlite3_file* file, int level) {
    return ours(file).below()->pMethods->xLock(ours(file).below(), level);
  }
  static int unlock(sqlite3_file* file, int level) {
    return ours(file).below()->pMethods->xUnlock(ours(file).below(), level);
  }
  static int check_reserved(sqlite3_file* file, int* result) {
    return ours(file).below()->pMethods->xCheckReservedLock(ours(file).below(), result);
  }
  static int control(sqlite3_file* file, int operation, void* argument) {
    return ours(file).below()->pMethods->xFileControl(ours(file).below(), operation, argument);
  }
  static int sector_size(sqlite3_file* file) {
    return ours(file).below()->pMethods->xSectorSize(ours(file).below());
  }
  static int characteristics(sqlite3_file* file) {
    return ours(file).below()->pMethods->xDeviceCharacteristics(ours(file).below());
  }
  static int shm_map(sqlite3_file* file, int page, int bytes, int extends, void volatile** result) {
    return ours(file).below()->pMethods->xShmMap(ours(file).below(), page, bytes, extends, result);
  }
  static int shm_lock(sqlite3_file* file, int offset, int count, int flags) {
    return ours(file).below()->pMethods->xShmLock(ours(file).below(), offset, count, flags);
  }
  static void shm_barrier(sqlite3_file* file) {
    ours(file).below()->pMethods->xShmBarrier(ours(file).below());
  }
  static int shm_unmap(sqlite3_file* file, int deletes) {
    return ours(file).below()->pMethods->xShmUnmap(ours(file).below(), deletes);
  }

  static constexpr sqlite3_io_methods methods{.iVersion = 2,  // without memory maps
                                              .xClose = close,
                                              .xRead = read,
                                              .xWrite = write,
                                              .xTruncate = truncate,
                                              .xSync = sync,
                                              .xFileSize = file_size,
                                              .xLock = lock,
                                              .xUnlock = unlock,
                                              .xCheckReservedLock = check_reserved,
                                              .xFileControl = control,
                                              .xSectorSize = sector_size,
                                              .xDeviceCharacteristics = characteristics,
                                              .xShmMap = shm_map,
                                              .xShmLock = shm_lock,
                                              .xShmBarrier = shm_barrier,
                                              .xShmUnmap = shm_unmap,
                                              .xFetch = nullptr,
                                              .xUnfetch = nullptr};
};

CrashDisk::CrashDisk(uint64_t seed)
    : random_(seed),
      vfs_(std::make_unique<sqlite3_vfs>(*system_vfs())),
      name_("crash-disk-" + std::to_string(reinterpret_cast<uintptr_t>(this))) {
  vfs_->zName = name_.c_str();
  vfs_->pNext = nullptr;
  vfs_->pAppData = this;
  vfs_->szOsFile = static_cast<int>(sizeof(OpenFile)) + system_vfs()->szOsFile;
  vfs_->xOpen = CrashDiskCalls::open;
  vfs_->xDelete = CrashDiskCalls::remove;
  vfs_->xAccess = CrashDiskCalls::access;
  EXPECT_EQ(sqlite3_vfs_register(vfs_.get(), 0), SQLITE_OK);
}

CrashDisk::~CrashDisk() {
  sqlite3_vfs_unregister(vfs_.get());
}

const char* CrashDisk::vfs() const noexcept {
  return name_.c_str();
}

void CrashDisk::fail(DiskFault fault, uint64_t first, uint64_t count) noexcept {
  fault_ = fault;
  fault_first_ = first;
  fault_end_ = first + count;
}

uint64_t CrashDisk::draw(uint64_t below) noexcept {
  return base::splitmix64(random_ += base::splitmix64_step) % below;
}

int CrashDisk::begin_call(Call call) {
  const std::lock_guard lock(mutex_);
  const bool changes = call != Call::read;
  if (changes && changes_count_ >= power_fails_at_) is_without_power_ = true;
  errno = EIO;
  if (is_without_power_) return SQLITE_IOERR;
  const bool fails = has_fault(call, calls_count_);
  ++calls_count_;
  if (changes) ++changes_count_;
  if (!fails) return SQLITE_OK;
  note_fault();
  if (fault_ == DiskFault::readonly) errno = EROFS;
  return SQLITE_IOERR;
}

bool CrashDisk::has_fault(Call call, uint64_t number) const noexcept {
  if (number < fault_first_ || number >= fault_end_) return false;
  return fault_ == DiskFault::io || (fault_ == DiskFault::readonly && call == Call::change);
}

void CrashDisk::note_fault() noexcept {
  if (changes_after_fault_ == never) return;
  power_fails_at_ = changes_count_ + std::exchange(changes_after_fault_, never);
}

int CrashDisk::sync(Image& image, int code) {
  if (is_without_power_) return code;
  const uint64_t number = syncs_count_++;
  const bool is_asked = number >= fault_first_ && number < fault_end_;
  if (code != SQLITE_OK || (fault_ == DiskFault::fsync && is_asked)) {
    note_fault();
    lose_some(image);
    errno = EIO;
    return SQLITE_IOERR_FSYNC;
  }
  for (const Change& change : image.unsynced) apply(image, change);
  image.unsynced.clear();
  // SQLite's own layer syncs the folder with the first sync of a log that it has created.
  if (std::exchange(image.may_vanish, false)) deleted_.clear();
  return SQLITE_OK;
}

// A full disk takes the bytes that it has room for.
int CrashDisk::begin_write(uint64_t size_bytes, uint64_t at, uint64_t bytes,
                           uint64_t& written_bytes) {
  if (const int code = begin_call(Call::change)) return code;
  const std::lock_guard lock(mutex_);
  const uint64_t growth_bytes = at + bytes > size_bytes ? at + bytes - size_bytes : 0;
  const uint64_t taken_bytes = std::min(growth_bytes, room_bytes_);
  if (room_bytes_ != never) room_bytes_ -= taken_bytes;
  grown_bytes_ += taken_bytes;
  const uint64_t missing_bytes = growth_bytes - taken_bytes;
  written_bytes = missing_bytes < bytes ? bytes - missing_bytes : 0;
  return missing_bytes == 0 ? SQLITE_OK : SQLITE_FULL;
}

CrashDisk::Image& CrashDisk::image_of(const std::string& path, bool is_new) {
  const auto [found, inserted] = images_.try_emplace(path);
  Image& image = found->second;
  if (inserted && is_new) image.may_vanish = true;
  if (inserted && !is_new) image.durable = content_of(path);
  return image;
}

void CrashDisk::apply(Image& image, const Change& change) {
  if (change.truncates) {
    image.durable.resize(change.at, '\0');
  } else {
    put(image.durable, change.at, change.bytes);
  }
}

// Each sector with this probability, and some of these only in part.
void CrashDisk::apply_sectors(Image& image, const Change& change, uint64_t percent) {
  std::string_view left = change.bytes;
  uint64_t at = change.at;
  while (!left.empty()) {
    const uint64_t bytes = std::min<uint64_t>(left.size(), sector_bytes - at % sector_bytes);
    const bool tears = percent < 100 && draw(10) == 0;
    if (draw(100) < percent) put(image.durable, at, left.substr(0, tears ? draw(bytes) : bytes));
    left.remove_prefix(bytes);
    at += bytes;
  }
}

void CrashDisk::lose_some(Image& image) {
  constexpr uint64_t percents[] = {0, 50, 90, 100};
  const uint64_t percent = percents[draw(4)];
  for (const Change& change : image.unsynced) {
    if (!change.truncates) {
      apply_sectors(image, change, percent);
    } else if (draw(100) < percent) {
      apply(image, change);
    }
  }
  image.unsynced.clear();
}

void CrashDisk::restart() {
  const std::lock_guard lock(mutex_);
  for (auto& [path, image] : images_) {
    std::filesystem::remove(path + "-shm");
    if (!std::filesystem::exists(path)) {
      EXPECT_TRUE(image.unsynced.empty()) << path << " was renamed before it was synced";
      continue;
    }
    lose_some(image);
    if (image.may_vanish && draw(2) == 0) {
      std::filesystem::remove(path);
    } else {
      set_content(path, image.durable);
    }
  }
  for (const auto& [path, content] : deleted_) {
    if (!std::filesystem::exists(path) && draw(2) == 0) set_content(path, content);
  }
  images_.clear();
  deleted_.clear();
  is_without_power_ = false;
  power_fails_at_ = never;
  room_bytes_ = never;
  fault_ = DiskFault::none;
}

}  // namespace sluice::test
