#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>
#include <yaml-cpp/stlemitter.h>

#include <string_view>

#include "text/utf8.hpp"
#include "transfer/complaints.hpp"
#include "transfer/go_ratelimit.hpp"
#include "transfer/go_time.hpp"
#include "transfer/new_file.hpp"
#include "transfer/writable.hpp"

namespace sluice::transfer {
namespace {

// Longer ones need the mark of a key before them. (1,024 characters for YAML; Go's yaml has 128.)
constexpr size_t simple_key_bytes_max = 100;

// In quotes, or some names would be numbers or null.
void write_name(YAML::Emitter& out, const std::string& name) {
  if (name.size() > simple_key_bytes_max) out << YAML::LongKey;
  out << YAML::Key << YAML::DoubleQuoted << name << YAML::Value;
}

template <typename Value>
void write_field(YAML::Emitter& out, const char* name, const Value& value) {
  out << YAML::Key << name << YAML::Value << value;
}

void write_quota(YAML::Emitter& out, const ModelQuota& quota) {
  out << YAML::BeginMap;
  write_field(out, "max_rpm", quota.max_rpm);
  write_field(out, "max_tpm", quota.max_tpm);
  write_field(out, "max_rpd", quota.max_rpd);
  out << YAML::EndMap;
}

void write_usage(YAML::Emitter& out, const ModelUsage& usage) {
  out << YAML::BeginMap;
  out << YAML::Key << "requests" << YAML::Value << YAML::BeginSeq;
  for (const int64_t wall_ns : usage.requests_wall_ns) out << go_time_text(wall_ns);
  out << YAML::EndSeq;
  out << YAML::Key << "tokens" << YAML::Value << YAML::BeginSeq;
  for (const TokenEvent& event : usage.tokens) {
    out << YAML::BeginMap;
    write_field(out, "time", go_time_text(event.wall_ns));
    write_field(out, "count", event.count);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
  write_field(out, "day_start", go_time_text(usage.day_start_wall_ns));
  write_field(out, "day_count", usage.day_count);
  out << YAML::EndMap;
}

std::string yaml_text(const GoRatelimitFile& file) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "quotas" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, quota] : file.quotas) {
    write_name(out, name);
    write_quota(out, quota);
  }
  out << YAML::EndMap << YAML::Key << "state" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, usage] : file.usage) {
    write_name(out, name);
    write_usage(out, usage);
  }
  out << YAML::EndMap << YAML::EndMap;
  return std::string(out.c_str(), out.size()) + "\n";
}

// DEL, which yaml-cpp writes as it is and Go's yaml does not accept; and what is no character for
// Unicode, which yaml-cpp replaces by another.
bool has_bad_character(std::string_view name) noexcept {
  while (!name.empty()) {
    const text::Character character = text::first_character(name);
    const uint32_t value = *character.value;
    if (value == 0x7F || (value >= 0xFDD0 && value <= 0xFDEF)) return true;
    if ((value & 0xFFFE) == 0xFFFE) return true;
    name.remove_prefix(character.bytes);
  }
  return false;
}

Complained<void> check_names(const GoRatelimitFile& file) {
  Complaints complaints;
  constexpr std::string_view text = "the name has a character that YAML does not allow";
  for (const auto& [name, quota] : file.quotas) {
    if (has_bad_character(name)) complaints.add("quotas." + shown_name(name), std::string(text));
  }
  for (const auto& [name, usage] : file.usage) {
    if (has_bad_character(name)) complaints.add("state." + shown_name(name), std::string(text));
  }
  if (complaints.empty()) return {};
  return tl::unexpected(complaints.take());
}

}  // namespace

Complained<void> write_go_ratelimit_yaml(const std::string& path, const GoRatelimitFile& file) {
  Complained<void> done = check_writable(file);
  if (done) done = check_names(file);
  if (!done) return done;
  Complained<NewFile> written = NewFile::create(path);
  if (!written) return tl::unexpected(std::move(written.error()));
  done = written->append(yaml_text(file));
  if (done) done = written->publish();
  return done;
}

}  // namespace sluice::transfer
