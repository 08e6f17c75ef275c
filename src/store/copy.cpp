#include "store/copy.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace sluice::store {
namespace {

Result<void> vacuum_into(Database& source, const UnfinishedFile& target) {
  Result<Statement> vacuum = source.prepare("VACUUM INTO ?1");
  if (!vacuum) return tl::unexpected(std::move(vacuum.error()));
  Result<void> done = vacuum->bind(1, std::string_view(target.path())).run();
  if (done) return done;  // else SQLite names the source
  return fail(done.error().kind, target.path(), done.error().detail);
}

}  // namespace

Result<void> copy_into(Database& source, const UnfinishedFile& target, const char* vfs) {
  Result<void> done = vacuum_into(source, target);
  if (!done) return done;
  Result<Database> copy = Database::open(target.path(), Access::write, vfs);
  if (!copy) return tl::unexpected(std::move(copy.error()));
  const auto complaints = copy->quick_check();
  if (!complaints) return tl::unexpected(complaints.error());
  if (!complaints->empty()) {
    return fail(FailureKind::damaged, source.path(), "a copy of it: " + complaints->front());
  }
  return copy->sync_file();
}

}  // namespace sluice::store
