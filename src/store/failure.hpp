// Why the state file cannot be opened or written.
// Errors: Result<T> carries a Failure; its text names the file, the cause and the cure.
#pragma once

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::store {

enum class FailureKind : uint8_t {
  // Of a file in use.
  full,
  io,
  readonly,
  busy,
  corrupt,
  fsync,
  moved,
  // Of a file that is to be opened or made.
  no_access,
  in_use,
  newer_version,
  not_ours,
  empty,
  damaged,
  exists,
};

inline constexpr size_t failure_kinds_count = 14;
inline constexpr size_t failure_kinds_in_use_count = 7;  // of them, the first

// "full", "newer_version": for metrics and logs.
std::string_view failure_name(FailureKind kind) noexcept;
// "it is damaged": without a cure, which here is of state files.
std::string_view failure_cause(FailureKind kind) noexcept;

// Whether trying again cannot help: the file is damaged, or is no longer the file it was.
bool is_final(FailureKind kind) noexcept;

struct Failure {
  FailureKind kind;
  std::string text;    // "FILE: CAUSE (DETAIL); CURE"
  std::string detail;  // what SQLite or the system says
};

template <typename T>
using Result = tl::expected<T, Failure>;

Failure make_failure(FailureKind kind, std::string_view path, std::string_view detail = {});

inline tl::unexpected<Failure> fail(FailureKind kind, std::string_view path,
                                    std::string_view detail = {}) {
  return tl::unexpected(make_failure(kind, path, detail));
}

// Why the system does not open or make a file.
tl::unexpected<Failure> fail_to_open(std::string_view path, int error);

// What is `corrupt` in a file in use is `damaged` before it is used: the cure differs.
Failure before_use(Failure failure, std::string_view path);

std::string error_text(int error);  // of an errno

}  // namespace sluice::store
