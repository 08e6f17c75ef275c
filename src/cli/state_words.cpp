#include "cli/state_words.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/time.hpp"
#include "cli/native_server.hpp"
#include "log/time.hpp"
#include "text/number.hpp"

namespace sluice::cli {
namespace {

struct Unit {
  int64_t ns;
  const char* name;
  int64_t until_ns;  // longer ages have the next unit
};

constexpr int64_t ns_per_minute = 60 * base::ns_per_s;
constexpr int64_t ns_per_hour = base::s_per_hour * base::ns_per_s;
constexpr std::array<Unit, 3> long_units{{{base::ns_per_s, "s", 2 * ns_per_minute},
                                          {ns_per_minute, "min", 2 * ns_per_hour},
                                          {ns_per_hour, "h", 2 * base::ns_per_day}}};
constexpr int64_t precise_until_ns = 10 * base::ns_per_s;

std::string age_text(int64_t age_ns) {
  if (age_ns < 0) return "in the future: a clock was set back, or differs";
  if (age_ns < precise_until_ns) {
    return fmt::format("{:.1f} s ago", static_cast<double>(age_ns) / base::ns_per_s);
  }
  for (const auto& [ns, name, until_ns] : long_units) {
    if (age_ns < until_ns) return fmt::format("{} {} ago", age_ns / ns, name);
  }
  return fmt::format("{} d ago", age_ns / base::ns_per_day);
}

const std::string* meta_of(const store::Info& info, std::string_view key) {
  const auto found = std::ranges::find(info.meta, key, &store::StoredMeta::key);
  return found == info.meta.end() ? nullptr : &found->value;
}

std::string meta_text(const store::Info& info, std::string_view key) {
  const std::string* value = meta_of(info, key);
  return value == nullptr ? "unknown" : printable(*value);
}

text::Json meta_json(const store::Info& info, std::string_view key) {
  const std::string* value = meta_of(info, key);
  return value == nullptr ? text::Json() : text::Json(*value);
}

text::Json shards_json(const store::Info& info) {
  const std::string* value = meta_of(info, "shards");
  const auto number = value == nullptr ? std::nullopt : text::parse_whole<uint32_t>(*value);
  return number ? text::Json(*number) : text::Json();
}

}  // namespace

// To the millisecond.
std::string time_text(int64_t wall_ns) {
  constexpr std::string_view shown = "2026-11-21T19:00:00.123";
  return log::utc_time(wall_ns).substr(0, shown.size()) + "Z";
}

std::string size_text(uint64_t bytes) {
  constexpr uint64_t step = 1024;
  if (bytes < 10 * step) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes) / step;
  for (const char* unit : {"KiB", "MiB"}) {
    if (size < step) return fmt::format("{:.1f} {}", size, unit);
    size /= step;
  }
  return fmt::format("{:.1f} GiB", size);
}

std::string commit_text(const store::Info& info, int64_t now_wall_ns) {
  if (info.parts_count == 0) return "none";
  if (!info.last_commit_wall_ns) return "unknown: the newest part is damaged";
  const int64_t wall_ns = *info.last_commit_wall_ns;
  return time_text(wall_ns) + ", " + age_text(now_wall_ns - wall_ns);
}

std::string epochs_text(const store::Info& info) {
  if (info.parts_count == 0) return "no epochs";
  return fmt::format("epochs {} to {}", info.first_epoch, info.last_epoch);
}

std::string info_text(const store::Info& info, int64_t now_wall_ns) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<18}{}\n", name, value);
  };
  add("file", printable(info.path));
  add("server version", meta_text(info, "version"));
  add("shards", meta_text(info, "shards"));
  add("schema version", std::to_string(info.schema_version));
  add("last commit", commit_text(info, now_wall_ns));
  add("parts",
      fmt::format("{}, {}, {}", info.parts_count, size_text(info.parts_bytes), epochs_text(info)));
  add("run-time quotas", std::to_string(info.run_time_quotas_count));
  add("quota classes", std::to_string(info.quota_classes_count));
  add("FILE", fmt::format("{}, of which {} are free for new parts", size_text(info.file_bytes),
                          size_text(info.unused_bytes)));
  add("FILE-wal", size_text(info.wal_bytes));
  return text;
}

text::Json export_json(const store::Info& info) {
  const auto wall_ns = info.last_commit_wall_ns;
  return {{"file", info.path},
          {"server_version", meta_json(info, "version")},
          {"shards", shards_json(info)},
          {"schema_version", info.schema_version},
          {"epoch", info.parts_count > 0 ? text::Json(info.last_epoch) : text::Json()},
          {"last_commit", wall_ns ? text::Json(time_text(*wall_ns)) : text::Json()}};
}

text::Json info_json(const store::Info& info, int64_t now_wall_ns) {
  const auto wall_ns = info.last_commit_wall_ns;
  const bool has_parts = info.parts_count > 0;
  const auto epoch = [&](uint64_t number) { return has_parts ? text::Json(number) : text::Json(); };
  return {{"file", info.path},
          {"server_version", meta_json(info, "version")},
          {"shards", shards_json(info)},
          {"schema_version", info.schema_version},
          {"last_commit", wall_ns ? text::Json(time_text(*wall_ns)) : text::Json()},
          {"last_commit_age_ms",
           wall_ns ? text::Json((now_wall_ns - *wall_ns) / base::ns_per_ms) : text::Json()},
          {"first_epoch", epoch(info.first_epoch)},
          {"last_epoch", epoch(info.last_epoch)},
          {"parts", info.parts_count},
          {"parts_bytes", info.parts_bytes},
          {"run_time_quotas", info.run_time_quotas_count},
          {"quota_classes", info.quota_classes_count},
          {"file_bytes", info.file_bytes},
          {"unused_bytes", info.unused_bytes},
          {"wal_bytes", info.wal_bytes}};
}

}  // namespace sluice::cli
