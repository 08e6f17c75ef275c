#include "store/failure.hpp"

#include <array>
#include <cerrno>
#include <system_error>

namespace sluice::store {
namespace {

struct Words {
  FailureKind kind;
  std::string_view name;
  std::string_view cause;
  std::string_view cure;
};

constexpr std::array<Words, failure_kinds_count> table{{
    {FailureKind::full, "full", "the file system has no room for it",
     "make room there, or raise the quota of the server's user"},
    {FailureKind::io, "io", "the system cannot read or write it",
     "check the disk and the kernel's log"},
    {FailureKind::readonly, "readonly", "it cannot be written",
     "mount its file system for writing, and let the server's user write the file and its folder"},
    {FailureKind::busy, "busy", "another program has locked it",
     "end that program; beside a running server only `sluicegate state` should use the file"},
    {FailureKind::corrupt, "corrupt", "its content is damaged",
     "stop the server, check the disk, and restore a backup, or move the file away to begin anew"},
    {FailureKind::fsync, "fsync", "the disk did not confirm what was written",
     "check the disk and the kernel's log; the server writes everything anew"},
    {FailureKind::moved, "moved",
     "the file or the FILE-wal beside it was moved, deleted or replaced",
     "restart the server with both at their place, or without both to begin anew"},
    {FailureKind::no_access, "no_access", "it cannot be opened",
     "its folder must exist, and the user of the process must be able to write there"},
    {FailureKind::in_use, "in_use", "another process uses it",
     "stop that process, or name another file"},
    {FailureKind::newer_version, "newer_version", "a newer version of Sluicegate wrote it",
     "start that version, or name another file"},
    {FailureKind::not_ours, "not_ours", "it is no state file of Sluicegate",
     "name another file; this one is left as it is"},
    {FailureKind::empty, "empty", "it is empty", "restore a backup, or delete it to begin anew"},
    {FailureKind::damaged, "damaged", "it is damaged",
     "restore a backup, or move it and the FILE-wal beside it away to begin anew; `sluicegate "
     "state recover` saves what is sound; it is left as it is"},
    {FailureKind::exists, "exists", "it exists already", "name a file that does not exist"},
}};

consteval bool in_order() noexcept {
  for (size_t i = 0; i < table.size(); ++i) {
    if (static_cast<size_t>(table[i].kind) != i) return false;
  }
  return true;
}
static_assert(in_order());

const Words& words_of(FailureKind kind) noexcept {
  return table[static_cast<size_t>(kind)];
}

}  // namespace

std::string_view failure_name(FailureKind kind) noexcept {
  return words_of(kind).name;
}

std::string_view failure_cause(FailureKind kind) noexcept {
  return words_of(kind).cause;
}

bool is_final(FailureKind kind) noexcept {
  switch (kind) {
    case FailureKind::full:
    case FailureKind::io:
    case FailureKind::readonly:
    case FailureKind::busy:
    case FailureKind::fsync:
    case FailureKind::no_access:
    case FailureKind::in_use:
      return false;
    case FailureKind::corrupt:
    case FailureKind::moved:
    case FailureKind::newer_version:
    case FailureKind::not_ours:
    case FailureKind::empty:
    case FailureKind::damaged:
    case FailureKind::exists:
      break;
  }
  return true;
}

Failure make_failure(FailureKind kind, std::string_view path, std::string_view detail) {
  const Words& words = words_of(kind);
  std::string text{path};
  text.append(": ").append(words.cause);
  if (!detail.empty()) text.append(" (").append(detail).append(")");
  text.append("; ").append(words.cure);
  return {.kind = kind, .text = std::move(text), .detail = std::string(detail)};
}

Failure before_use(Failure failure, std::string_view path) {
  if (failure.kind != FailureKind::corrupt) return failure;
  return make_failure(FailureKind::damaged, path, failure.detail);
}

std::string error_text(int error) {
  return std::generic_category().message(error);
}

tl::unexpected<Failure> fail_to_open(std::string_view path, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return fail(FailureKind::full, path, error_text(error));
    case EROFS:
      return fail(FailureKind::readonly, path, error_text(error));
    case EEXIST:
      return fail(FailureKind::exists, path, error_text(error));
    default:
      return fail(FailureKind::no_access, path, error_text(error));
  }
}

}  // namespace sluice::store
