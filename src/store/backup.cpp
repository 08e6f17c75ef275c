#include "store/backup.hpp"

#include <cerrno>

#include "store/copy.hpp"
#include "store/file_place.hpp"
#include "store/state_reader.hpp"
#include "store/unfinished_file.hpp"

namespace sluice::store {

Result<void> backup(const std::string& source, const std::string& target, const char* vfs) {
  Result<StateReader> reader = StateReader::open(source, vfs);
  if (!reader) return tl::unexpected(std::move(reader.error()));
  const std::string real_target = real_path(target);
  if (status_of(real_target)) return fail_to_open(real_target, EEXIST);
  Database& database = reader->database();
  // VACUUM reports some damage as a full disk, and copies other damage.
  Result<void> done = database.expect_sound_pages();
  if (!done) return done;
  Result<UnfinishedFile> copy = UnfinishedFile::make(real_target, vfs);
  if (!copy) return tl::unexpected(std::move(copy.error()));
  done = database.execute("COMMIT");  // VACUUM does not run within the reader's transaction
  if (done) done = copy_into(database, *copy, vfs);
  if (done) done = reader->expect_unchanged();
  if (done) done = copy->publish();
  return done;
}

}  // namespace sluice::store
