#include "cli/migration_words.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdio>

#include "policy/quota_file.hpp"
#include "text/counted.hpp"

namespace sluice::cli {
namespace {

struct Carried {
  size_t models = 0;
  size_t used = 0;
  uint64_t requests = 0;
  uint64_t token_events = 0;
  size_t days = 0;
};

std::string text_of(const Carried& carried) {
  const std::string models = text::counted(carried.models, "model", "models");
  if (carried.used == 0) return models + ", without usage";
  return fmt::format("{}; of {} the usage: {}, {}, {}", models, carried.used,
                     text::counted(carried.requests, "request", "requests"),
                     text::counted(carried.token_events, "token entry", "token entries"),
                     text::counted(carried.days, "day", "days"));
}

}  // namespace

std::string quotas_part(const std::vector<migration::IncomingSubject>& subjects) {
  std::string entries;
  for (const migration::IncomingSubject& subject : subjects) {
    entries += entries.empty() ? "\n      " : ",\n      ";
    entries += policy::subject_text({.subject = subject.name, .quota = subject.quota});
  }
  return fmt::format("{{\n  \"quotas\": {{\n    \"subjects\": [{}\n    ]\n  }}\n}}\n", entries);
}

std::string carried_text(const migration::Incoming& incoming) {
  return text_of({.models = incoming.subjects.size(),
                  .used = incoming.used_subjects,
                  .requests = incoming.requests,
                  .token_events = incoming.token_events,
                  .days = incoming.days});
}

std::string carried_text(const migration::Outgoing& outgoing) {
  return text_of({.models = outgoing.file.quotas.size(),
                  .used = outgoing.file.usage.size(),
                  .requests = outgoing.requests,
                  .token_events = outgoing.token_events,
                  .days = outgoing.days});
}

void print_error(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

std::string lines_of(const std::string& start, const std::vector<transfer::Complaint>& each) {
  std::string lines;
  for (const transfer::Complaint& one : each) {
    lines += start + ": ";
    if (!one.place.empty()) lines += one.place + ": ";
    lines += one.text + "\n";
  }
  return lines;
}

}  // namespace sluice::cli
