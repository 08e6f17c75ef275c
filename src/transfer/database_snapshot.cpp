#include "transfer/database_snapshot.hpp"

#include <stdlib.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "transfer/complaints.hpp"

namespace sluice::transfer {
namespace {

constexpr std::array<const char*, 3> suffixes{"", "-wal", "-journal"};

bool same(const std::optional<store::FileStatus>& a, const std::optional<store::FileStatus>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->identity == b->identity && a->bytes == b->bytes &&
         a->modified_wall_ns == b->modified_wall_ns;
}

std::string copied_path(const std::string& folder) {
  return folder + "/copy";
}

}  // namespace

bool DatabaseSnapshot::Files::has_log() const noexcept {
  return (wal && wal->bytes > 0) || (journal && journal->bytes > 0);
}

uint64_t DatabaseSnapshot::Files::bytes() const noexcept {
  uint64_t bytes = 0;
  for (const auto& file : {main, wal, journal}) bytes += file ? file->bytes : 0;
  return bytes;
}

void DatabaseSnapshot::RemoveFolder::operator()(std::string* folder) const noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(*folder, ignored);
  delete folder;
}

DatabaseSnapshot::Files DatabaseSnapshot::files_of(const std::string& path) noexcept {
  return {.main = store::status_of(path),
          .wal = store::status_of(path + "-wal"),
          .journal = store::status_of(path + "-journal")};
}

Complained<DatabaseSnapshot> DatabaseSnapshot::open(const std::string& path) {
  DatabaseSnapshot snapshot;
  snapshot.path_ = store::real_path(path);
  const Complained<GoRatelimitFormat> format = go_ratelimit_format(snapshot.path_);
  if (!format) return tl::unexpected(format.error());
  if (*format != GoRatelimitFormat::sqlite) return complain("is no SQLite database");
  snapshot.before_ = files_of(snapshot.path_);
  if (!snapshot.before_.main) return complain("is there no more");
  if (snapshot.before_.bytes() > go_ratelimit_file_bytes_max) {
    return complain("is larger than " + std::to_string(go_ratelimit_file_bytes_max >> 20) + " MiB");
  }
  Complained<void> done;
  if (snapshot.before_.has_log()) done = snapshot.copy();
  if (done) done = snapshot.open_database();
  if (!done) return tl::unexpected(std::move(done.error()));
  return snapshot;
}

Complained<void> DatabaseSnapshot::copy() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string name = (parent / "sluicegate.XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr) {
    return complain("no folder for a temporary copy: " +
                    (error ? error.message() : store::error_text(errno)));
  }
  copies_.reset(new std::string(std::move(name)));
  for (const char* suffix : suffixes) {
    const std::string from = path_ + suffix;
    if (!store::status_of(from)) continue;
    std::filesystem::copy_file(from, copied_path(*copies_) + suffix, error);
    if (error) return complain("cannot be copied: " + from + ": " + error.message());
  }
  return check_unchanged();
}

Complained<void> DatabaseSnapshot::open_database() {
  auto opened = copies_
                    ? store::Database::open(copied_path(*copies_), store::Access::write, nullptr)
                    : store::Database::open(path_, store::Access::immutable, nullptr);
  if (!opened) return complain(text_of(opened.error()));
  database_ = std::move(*opened);
  const store::Result<bool> has_log = database_.is_in_wal_mode();
  if (!has_log) return complain(text_of(has_log.error()));
  if (!*has_log && before_.wal && before_.wal->bytes > 0) {
    return complain("the FILE-wal beside it is of another file: move that away");
  }
  const store::Result<void> done = database_.distrust();
  if (!done) return complain(text_of(done.error()));
  return check_pages();
}

// SQLite fills the last page with zeros, where the end of a page has the values of its first rows.
Complained<void> DatabaseSnapshot::check_pages() {
  const store::Result<int64_t> page_bytes = database_.integer("PRAGMA page_size");
  if (!page_bytes) return complain(text_of(page_bytes.error()));
  if (before_.main->bytes % static_cast<uint64_t>(*page_bytes) == 0) return {};
  return complain("was cut: its last page is not whole");
}

Complained<void> DatabaseSnapshot::check_unchanged() const {
  const Files now = files_of(path_);
  if (same(now.main, before_.main) && same(now.wal, before_.wal) &&
      same(now.journal, before_.journal)) {
    return {};
  }
  return complain("changes while it is read: stop the program that writes it, and try again");
}

}  // namespace sluice::transfer
