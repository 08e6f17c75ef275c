// The files in which the Go library go-ratelimit keeps its quotas and usage, as values: its YAML
// document and its SQLite database. Knows nothing of our own state file.
// Flow:   read_go_ratelimit(path) -> GoRatelimitFile -> write_go_ratelimit_yaml(path, file).
//         yaml-cpp is included by the .cpp files of this folder only.
// Shape:  YAML: quotas: MODEL: {max_rpm, max_tpm, max_rpd}, and state: MODEL: {requests, tokens,
//         day_start, day_count}, times as RFC 3339 with nanoseconds and offset. SQLite: the tables
//         quotas, requests, tokens and daily, times as nanoseconds since 1970.
// Units:  nanoseconds of wall time, in UTC; between 1970 and 2262.
// Errors: everything that is wrong with a file, each with its place; then nothing is returned.
//         Nothing negative, null, unknown or twice is accepted, though the library accepts it;
//         and no YAML that lacks a section, or a field of a usage: a crash of the library, which
//         writes in place, may have cut it. (A cut between two models cannot be seen.)
// Bounds: go_ratelimit_file_bytes_max, go_ratelimit_complaints_max. YAML without aliases.
// Lives:  a file that was written survives a power failure; one that was read is left as it is,
//         and so are FILE-wal and FILE-shm beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace sluice::transfer {

inline constexpr uint64_t go_ratelimit_file_bytes_max = 256ULL * 1'024 * 1'024;
// One more follows, without a place of its own, when there are further ones.
inline constexpr size_t go_ratelimit_complaints_max = 100;

// 0: unlimited.
struct ModelQuota {
  int64_t max_rpm = 0;
  int64_t max_tpm = 0;
  int64_t max_rpd = 0;
  bool operator==(const ModelQuota&) const = default;
};

struct TokenEvent {
  int64_t wall_ns = 0;
  int64_t count = 0;
  bool operator==(const TokenEvent&) const = default;
};

// What a reader returns is sorted by time.
struct ModelUsage {
  std::vector<int64_t> requests_wall_ns;
  std::vector<TokenEvent> tokens;
  std::optional<int64_t> day_start_wall_ns;  // empty: Go's zero time, the day has not begun
  int64_t day_count = 0;
  bool operator==(const ModelUsage&) const = default;
};

struct GoRatelimitFile {
  std::map<std::string, ModelQuota> quotas;
  std::map<std::string, ModelUsage> usage;
  bool operator==(const GoRatelimitFile&) const = default;
};

struct Complaint {
  // "line 12, column 3: quotas.gpt-4o.max_rpm", "table tokens, row 17"; empty: the whole file.
  std::string place;
  std::string text;
  bool operator==(const Complaint&) const = default;
};

enum class GoRatelimitFormat : uint8_t { yaml, sqlite };

template <typename Value>
using Complained = tl::expected<Value, std::vector<Complaint>>;

// SQLite where the file begins as every database of SQLite does, else YAML.
Complained<GoRatelimitFormat> go_ratelimit_format(const std::string& path);

Complained<GoRatelimitFile> read_go_ratelimit_yaml(const std::string& path);
Complained<GoRatelimitFile> read_go_ratelimit_sqlite(const std::string& path);
// In the format that the file has.
Complained<GoRatelimitFile> read_go_ratelimit(const std::string& path);

// Makes the whole file under another name beside it, then names it; an existing file is never
// overwritten. What cannot be written in the format (a time or number that is negative, a name
// that is no UTF-8) is a complaint too, and then there is no file.
Complained<void> write_go_ratelimit_yaml(const std::string& path, const GoRatelimitFile& file);
Complained<void> write_go_ratelimit_sqlite(const std::string& path, const GoRatelimitFile& file);

}  // namespace sluice::transfer
