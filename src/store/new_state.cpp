#include "store/new_state.hpp"

#include <cerrno>
#include <utility>

#include "store/file_place.hpp"
#include "store/schema.hpp"

namespace sluice::store {

Result<NewState> NewState::make(const std::string& target, const char* vfs) {
  const std::string real = real_path(target);
  if (status_of(real)) return fail_to_open(real, EEXIST);
  Result<UnfinishedFile> file = UnfinishedFile::make(real, vfs);
  if (!file) return tl::unexpected(std::move(file.error()));
  NewState made(std::move(*file));
  Result<Database> database = Database::open(made.path(), Access::write, vfs);
  if (!database) return tl::unexpected(std::move(database.error()));
  made.database_ = std::move(*database);
  Result<void> done = create_tables(made.database_);
  if (!done) return tl::unexpected(std::move(done.error()));
  Result<StateTables> tables = StateTables::prepare(made.database_);
  if (!tables) return tl::unexpected(std::move(tables.error()));
  made.tables_ = std::move(*tables);
  done = made.tables_.begin();
  if (!done) return tl::unexpected(std::move(done.error()));
  return made;
}

Result<void> NewState::finish() {
  Result<void> done = tables_.commit();
  if (done) done = database_.sync_file();
  tables_ = {};
  database_ = {};
  return done;
}

}  // namespace sluice::store
