#include "store/state_file.hpp"

#include <utility>

#include "base/assert.hpp"
#include "log/log.hpp"
#include "store/schema.hpp"

namespace sluice::store {
namespace {

std::string wal_of(const std::string& path) {
  return path + "-wal";
}

void warn_of_network(const std::string& path) {
  log::warning(
      "the state file is on a network file system, which may lose what it confirmed and does not "
      "keep a second server out; choose a local disk",
      {{"file", path}});
}

}  // namespace

StateFile::StateFile(const StateFileOptions& options, FileLock lock)
    : options_(options), lock_(std::move(lock)) {}

Result<std::unique_ptr<StateFile>> StateFile::open(const StateFileOptions& options) {
  StateFileOptions real = options;
  real.path = real_path(options.path);
  Result<void> kind = check_kind(real.path);
  if (!kind) return tl::unexpected(std::move(kind.error()));
  Result<FileLock> lock = FileLock::take(real.path, options.lock_patience);
  if (!lock) return tl::unexpected(std::move(lock.error()));
  std::unique_ptr<StateFile> file(new StateFile(real, std::move(*lock)));
  Result<void> done = file->find_or_create();
  if (done) done = check_header(real.path, file->oldest_version());
  if (done) done = check_log_belongs(real.path, real.vfs);
  if (done) done = file->connect();
  if (done && options.checks_pages) done = file->database_.expect_sound_pages();
  if (done) done = file->migrate();
  if (done) done = file->prepare();
  if (!done) return tl::unexpected(before_use(std::move(done.error()), real.path));
  if (is_on_network(real.path)) warn_of_network(real.path);
  return file;
}

Result<void> StateFile::find_or_create() {
  if (status_of(options_.path)) return {};
  Result<void> done = expect_no_log(options_.path);
  if (!done) return done;
  is_new_ = true;
  return create_file(options_.path, options_.vfs);
}

// Changes nothing in the file.
Result<void> StateFile::connect() {
  Result<Database> database = Database::open(options_.path, Access::write, options_.vfs);
  if (!database) return tl::unexpected(std::move(database.error()));
  database_ = std::move(*database);
  if (database_.is_readonly()) return fail(FailureKind::readonly, options_.path);
  Result<void> done = check_schema(database_, options_.path, oldest_version());
  if (!done) return done;
  // Debian's SQLite would overwrite all that is deleted with zeros, which is as much to write. A
  // checkpoint is tidy()'s, so that no commit waits for one.
  return database_.execute(
      "PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF;"
      "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA secure_delete=OFF;"
      "PRAGMA journal_size_limit=33554432; PRAGMA temp_store=MEMORY;");
}

uint32_t StateFile::oldest_version() const noexcept {
  return options_.migrations.front().from;
}

Result<void> StateFile::migrate() {
  return store::migrate(database_, {.path = options_.path,
                                    .steps = options_.migrations,
                                    .verify = options_.verify,
                                    .vfs = options_.vfs});
}

// Changes nothing in the file either.
Result<void> StateFile::prepare() {
  Result<StateTables> tables = StateTables::prepare(database_);
  if (!tables) return tl::unexpected(std::move(tables.error()));
  tables_ = std::move(*tables);
  const Result<LogEnd> end = tables_.read_end();
  if (!end) return tl::unexpected(end.error());
  end_ = *end;
  const Result<int64_t> page_bytes = database_.integer("PRAGMA page_size");
  if (!page_bytes) return tl::unexpected(page_bytes.error());
  page_bytes_ = static_cast<uint64_t>(*page_bytes);
  database_.count_wal_pages_in(wal_pages_);
  return {};
}

Result<void> StateFile::begin_writing() {
  const Result<std::string> mode = database_.text("PRAGMA journal_mode=WAL");
  if (!mode) return tl::unexpected(mode.error());
  if (*mode != "wal") {
    return fail(FailureKind::no_access, options_.path,
                "its file system cannot share memory between processes");
  }
  const Result<LogEnd> end = tables_.read_end();  // makes FILE-wal, if there is none
  if (!end) return tl::unexpected(end.error());
  Result<void> done = remember_identity();
  if (done) is_writing_ = true;
  return done;
}

Result<void> StateFile::remember_identity() {
  const auto file = status_of(options_.path);
  const auto wal = status_of(wal_of(options_.path));
  if (!file || !wal) return fail(FailureKind::moved, options_.path);
  identity_ = {.file = file->identity, .wal = wal->identity};
  return check_place();
}

void StateFile::note(const Result<void>& done) noexcept {
  if (!done && done.error().kind == FailureKind::fsync) must_reopen_ = true;
}

// Also measures the files.
Result<void> StateFile::check_place() {
  const auto file = status_of(options_.path);
  const auto wal = status_of(wal_of(options_.path));
  if (!file || file->identity != identity_.file || !wal || wal->identity != identity_.wal) {
    return fail(FailureKind::moved, options_.path);
  }
  file_bytes_ = file->bytes + wal->bytes;
  return {};
}

template <typename Write>
Result<void> StateFile::in_transaction(Write write) {
  ASSERT(database_.is_open());
  ASSERT(!must_reopen_);
  Result<void> done = tables_.begin();
  if (done) done = write();
  if (done) done = tables_.commit();
  // SQLite rolls back by itself after most failures, and may not after others.
  if (!done && database_.in_transaction()) static_cast<void>(tables_.rollback());
  const Result<void> place = check_place();
  if (!place) return place;
  note(done);
  return done;
}

void StateFile::set_meta(std::span<const MetaValue> values) {
  for (const MetaValue& each : values) {
    meta_.push_back({.key = std::string(each.key), .value = std::string(each.value)});
  }
}

Result<void> StateFile::commit(const Batch& batch) {
  ASSERT(batch.epoch >= end_.last_epoch);
  if (!is_writing_) {
    Result<void> begun = begin_writing();
    if (!begun) return begun;
  }
  // An fsync failed, and yet reopen() found the commit whole: now the disk has it.
  if (batch.epoch == end_.last_epoch) return {};
  LogEnd end = end_;
  Result<void> done = in_transaction([&] {
    Result<void> written = tables_.write(meta_);
    if (written) written = tables_.write(batch, end);
    return written;
  });
  if (!done) return done;
  end_ = end;
  meta_.clear();
  return {};
}

Result<void> StateFile::tidy() {
  ASSERT(database_.is_open() && !must_reopen_);
  if (!is_writing_) return {};
  if (static_cast<uint64_t>(wal_pages_) * page_bytes_ < options_.checkpoint_bytes) return {};
  const Result<void> done = database_.checkpoint_passive();
  note(done);
  if (done) wal_pages_ = 0;
  return done;
}

void StateFile::disconnect() noexcept {
  tables_ = {};
  database_ = {};
}

// After an fsync failed, the kernel may consider pages written that the disk does not have. In FILE
// those are pages that FILE-wal has too, and a new connection copies them anew. FILE-wal itself is
// written again as it is read now: else further commits could follow one that the disk lacks, and
// be lost with it.
Result<void> StateFile::reopen() {
  disconnect();
  Result<void> done = check_place();
  if (done) done = connect();
  if (done) done = prepare();
  if (done) done = check_place();
  if (done) done = tables_.begin();
  if (!done) return done;
  done = database_.rewrite_wal();
  static_cast<void>(tables_.rollback());
  if (done) must_reopen_ = false;
  return done;
}

Result<void> StateFile::close() {
  if (!database_.is_open()) return {};
  if (!is_writing_) {
    disconnect();
    return {};
  }
  Result<void> done = check_place();
  if (done && must_reopen_) done = fail(FailureKind::fsync, options_.path);
  if (done) {
    const Result<bool> truncated = database_.checkpoint_truncate();
    if (!truncated) done = tl::unexpected(truncated.error());
  }
  if (done) database_.checkpoint_on_close();
  disconnect();
  return done;
}

StoreSize StateFile::size() const noexcept {
  return {.file_bytes = file_bytes_, .log_bytes = end_.bytes};
}

}  // namespace sluice::store
