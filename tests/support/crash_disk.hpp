// A disk under SQLite that loses power, runs full, reports errors, and whose fsync fails.
// Goal:   whatever a disk may do between two fsyncs, at any call.
// Method: a VFS of SQLite above its own one. Files hold what programs see. Beside them the disk
//         keeps, for each file, what fsync has made durable, and what was written since. When the
//         power has failed, restart() gives each file what a disk may have then: the durable bytes,
//         and of the others any sectors, some only in part. A file that was created and never
//         synced may be gone; one that was deleted may be there again. An fsync that fails does
//         what Linux does: what was to be written counts as written, and may be lost.
// Bounds: it sees only SQLite's calls. A rename is durable at once, and must rename a synced file.
// Lives:  until all connections through it are closed. Shared memory is the system's own.
// Threads: any.
// Source: sqlite.org/vfs.html; "Files are hard", and Linux' fsync(2) since 4.13.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct sqlite3_vfs;

namespace sluice::test {

enum class DiskFault : uint8_t { none, io, readonly, fsync };

class CrashDisk {
 public:
  static constexpr uint64_t never = std::numeric_limits<uint64_t>::max();

  explicit CrashDisk(uint64_t seed);
  ~CrashDisk();
  CrashDisk(const CrashDisk&) = delete;
  CrashDisk& operator=(const CrashDisk&) = delete;

  const char* vfs() const noexcept;  // its name, for Database::open()

  // Calls that change something: write, truncate, sync, delete, creation. Then all of these, and
  // reads and other opens. Then syncs alone.
  uint64_t changes_count() const noexcept { return changes_count_; }
  uint64_t calls_count() const noexcept { return calls_count_; }
  uint64_t syncs_count() const noexcept { return syncs_count_; }
  uint64_t grown_bytes() const noexcept { return grown_bytes_; }  // of all files

  // The power fails before the change of this number; from then on every call fails.
  void fail_power_at(uint64_t change) noexcept { power_fails_at_ = change; }
  // The power fails so many changes after the first call that fails.
  void fail_power_after_fault(uint64_t changes) noexcept { changes_after_fault_ = changes; }
  bool is_without_power() const noexcept { return is_without_power_; }
  // Also when the power has not failed: then it does now.
  void restart();

  // Calls of these numbers (syncs, for DiskFault::fsync) fail; `readonly` only those that change
  // something.
  void fail(DiskFault fault, uint64_t first, uint64_t count = 1) noexcept;
  // Files may grow by so much in all; never: without end.
  void set_room(uint64_t bytes) noexcept { room_bytes_ = bytes; }

 private:
  friend struct CrashDiskCalls;

  struct Change {
    bool truncates = false;
    uint64_t at = 0;  // of a truncation: the new size
    std::string bytes;
  };
  struct Image {
    std::string durable;
    std::vector<Change> unsynced;
    bool may_vanish = false;  // created, and its folder not synced since
  };

  enum class Call : uint8_t { read, change, sync };

  // What a call has to return; 0: it works.
  int begin_call(Call call);
  bool has_fault(Call call, uint64_t number) const noexcept;
  int sync(Image& image, int code);
  void note_fault() noexcept;
  int begin_write(uint64_t size_bytes, uint64_t at, uint64_t bytes, uint64_t& written_bytes);
  Image& image_of(const std::string& path, bool is_new);
  void apply(Image& image, const Change& change);
  void lose_some(Image& image);
  void apply_sectors(Image& image, const Change& change, uint64_t percent);
  uint64_t draw(uint64_t below) noexcept;

  std::mutex mutex_;
  uint64_t random_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  std::string name_;
  std::map<std::string, Image> images_;         // by path
  std::map<std::string, std::string> deleted_;  // files that may return, and their content
  bool is_without_power_ = false;
  uint64_t power_fails_at_ = never;
  uint64_t changes_count_ = 0;
  uint64_t calls_count_ = 0;
  uint64_t syncs_count_ = 0;
  uint64_t grown_bytes_ = 0;
  uint64_t room_bytes_ = never;
  DiskFault fault_ = DiskFault::none;
  uint64_t fault_first_ = 0;
  uint64_t fault_end_ = 0;
  uint64_t changes_after_fault_ = never;
};

}  // namespace sluice::test
