#include "store/compact.hpp"

#include <chrono>
#include <utility>

#include "store/copy.hpp"
#include "store/database.hpp"
#include "store/file_lock.hpp"
#include "store/file_place.hpp"
#include "store/schema.hpp"
#include "store/unfinished_file.hpp"

namespace sluice::store {
namespace {

uint64_t bytes_with_log(const std::string& path) {
  const auto file = status_of(path);
  const auto log = status_of(path + "-wal");
  return (file ? file->bytes : 0) + (log ? log->bytes : 0);
}

// Nobody else reads it meanwhile: a reader would keep FILE-wal, which does not belong to the copy.
Result<Database> open_alone(const std::string& path, const char* vfs) {
  Result<Database> source = Database::open(path, Access::write, vfs);
  if (!source) return source;
  if (source->is_readonly()) return fail(FailureKind::readonly, path);
  Result<void> done = source->execute(
      "PRAGMA locking_mode=EXCLUSIVE; PRAGMA busy_timeout=2000; PRAGMA synchronous=FULL;"
      "PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF;");
  if (done) done = check_schema(*source, path);
  if (done) done = source->expect_sound_pages();
  if (!done) return tl::unexpected(std::move(done.error()));
  return source;
}

// The disk has confirmed that FILE-wal is empty: else what it had might be there again after a
// power failure, beside the copy.
Result<void> empty_log(Database& source, const std::string& path) {
  const Result<bool> is_empty = source.checkpoint_truncate();
  if (!is_empty) return tl::unexpected(is_empty.error());
  if (!*is_empty) return fail(FailureKind::busy, path);
  return source.rewrite_wal();
}

Result<void> copy_to_its_place(const std::string& path, const char* vfs) {
  Result<UnfinishedFile> copy = UnfinishedFile::make(path, vfs);
  if (!copy) return tl::unexpected(std::move(copy.error()));
  Result<void> done = copy->set_owner_of(path);
  if (!done) return done;
  Result<Database> source = open_alone(path, vfs);
  if (!source) return tl::unexpected(std::move(source.error()));
  done = empty_log(*source, path);
  if (done) done = copy_into(*source, *copy, vfs);
  return done ? copy->replace() : done;
}

}  // namespace

Result<Compaction> compact(const std::string& path, const char* vfs) {
  const std::string real = real_path(path);
  Result<void> done = check_header(real);
  if (!done) return tl::unexpected(std::move(done.error()));
  const Result<FileLock> lock = FileLock::take(real, std::chrono::milliseconds(0));
  if (!lock) return tl::unexpected(lock.error());
  const uint64_t bytes_before = bytes_with_log(real);
  done = copy_to_its_place(real, vfs);
  if (!done) return tl::unexpected(before_use(std::move(done.error()), real));
  return Compaction{.bytes_before = bytes_before, .bytes_after = bytes_with_log(real)};
}

}  // namespace sluice::store
