// A file that gets its name only when it is whole: until then it is TARGET.unfinished.
// Flow:   make() -> SQLite writes path() -> publish() or replace().
// Errors: exists: the target is there already; in_use: another process makes it just now. What an
//         earlier process has left unfinished is overwritten.
// Lives:  the destructor removes what was not published. A process that dies leaves it; the command
//         line removes it when a signal ends it (cli/remove_on_signal.hpp).
#pragma once

#include <string>

#include "io/file_descriptor.hpp"
#include "store/failure.hpp"

namespace sluice::store {

class UnfinishedFile {
 public:
  // An empty file beside the target, which only its user may read. `vfs` as for Database.
  static Result<UnfinishedFile> make(const std::string& target, const char* vfs);
  static std::string path_of(const std::string& target) { return target + ".unfinished"; }

  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&&) = delete;
  ~UnfinishedFile();

  const std::string& target() const noexcept { return target_; }
  const std::string& path() const noexcept { return path_; }

  // Owner and permissions as those of another file. Only root may set another owner: no_access.
  Result<void> set_owner_of(const std::string& other);

  // The disk has confirmed its bytes, and no connection to it is open. It gets its name, which no
  // file may have ...
  Result<void> publish();
  // ... or takes the place of the file that has it.
  Result<void> replace();

 private:
  UnfinishedFile(std::string target, std::string path, io::FileDescriptor lock, const char* vfs);
  Result<void> end(int error);

  std::string target_;
  std::string path_;  // empty: published
  io::FileDescriptor lock_;
  const char* vfs_;
};

}  // namespace sluice::store
