#include "store/backup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/file_descriptor.hpp"
#include "store/file_place.hpp"
#include "store/state_reader.hpp"

namespace sluice::store {
namespace {

// SQLite fills an empty file; made here, only its user may read it.
Result<void> make_target(const std::string& target) {
  const io::FileDescriptor file(
      ::open(target.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return fail_to_open(target, errno);
  return {};
}

// VACUUM reports some damage as a full disk, and copies other damage.
Result<void> check_source(Database& database) {
  const auto complaints = database.quick_check();
  if (!complaints) return tl::unexpected(complaints.error());
  if (complaints->empty()) return {};
  return fail(FailureKind::damaged, database.path(), complaints->front());
}

Result<void> copy_to(Database& database, const std::string& target) {
  // VACUUM does not run within the reader's transaction.
  Result<void> done = database.execute("COMMIT");
  if (!done) return done;
  Result<Statement> vacuum = database.prepare("VACUUM INTO ?1");
  if (!vacuum) return tl::unexpected(std::move(vacuum.error()));
  done = vacuum->bind(1, std::string_view(target)).run();
  if (done) return done;  // else SQLite names the source
  return fail(done.error().kind, target, done.error().detail);
}

Result<void> sync_file(const std::string& target) {
  const io::FileDescriptor file(::open(target.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) return fail_to_open(target, errno);
  if (::fsync(file.get()) != 0) return fail(FailureKind::fsync, target, error_text(errno));
  return sync_folder_of(target);
}

}  // namespace

Result<void> backup(const std::string& source, const std::string& target, const char* vfs) {
  Result<StateReader> reader = StateReader::open(source, vfs);
  if (!reader) return tl::unexpected(std::move(reader.error()));
  const std::string real_target = real_path(target);
  Result<void> done = check_source(reader->database());
  if (done) done = make_target(real_target);
  if (!done) return done;
  done = copy_to(reader->database(), real_target);
  if (done) done = sync_file(real_target);
  if (!done) ::unlink(real_target.c_str());
  return done;
}

}  // namespace sluice::store
