#include "migration/incoming.hpp"

#include <spdlog/fmt/fmt.h>

#include <map>
#include <utility>

#include "base/limits.hpp"
#include "migration/model_quota.hpp"
#include "text/counted.hpp"
#include "text/utf8.hpp"
#include "transfer/complaints.hpp"

namespace sluice::migration {
namespace {

std::string events_text(uint64_t requests, uint64_t tokens) {
  return text::counted(requests, "request", "requests") + " and " +
         text::counted(tokens, "token entry", "token entries");
}

std::string model_place(const std::string& model) {
  return "model " + transfer::shown_name(model);
}

class IncomingMapping {
 public:
  explicit IncomingMapping(int64_t now_wall_ns) : now_wall_ns_(now_wall_ns) {}

  Incoming read(const transfer::GoRatelimitFile& file) {
    for (const auto& [model, quota] : file.quotas) {
      if (check_name(model)) {
        incoming_.subjects.push_back({.name = model, .quota = quota_of(quota), .usage = {}});
      }
    }
    auto subject = incoming_.subjects.begin();
    for (const auto& [model, usage] : file.usage) {
      while (subject != incoming_.subjects.end() && subject->name < model) ++subject;
      const bool is_limited = subject != incoming_.subjects.end() && subject->name == model;
      if (is_limited) {
        take_usage(usage, *subject);
      } else if (!file.quotas.contains(model)) {
        leave_out(
            model,
            "its usage: it has no quota, so the library never limits it; nor does Sluicegate");
      }
    }
    return std::move(incoming_);
  }

 private:
  bool check_name(const std::string& model) {
    if (model.empty()) return complain(model, "the name is empty, which no subject may be");
    if (model.size() > limits::key_bytes_max) {
      return complain(model, fmt::format("the name has {} bytes; at most {} are allowed",
                                         model.size(), limits::key_bytes_max));
    }
    if (!text::is_utf8(model)) return complain(model, "the name is not UTF-8");
    return true;
  }

  bool complain(const std::string& model, std::string text) {
    incoming_.complaints.push_back({.place = model_place(model), .text = std::move(text)});
    return false;
  }

  void take_usage(const transfer::ModelUsage& usage, IncomingSubject& subject) {
    subject.usage = live_usage(usage, now_wall_ns_);
    const LiveUsage& live = subject.usage;
    if (live.has_any()) ++incoming_.used_subjects;
    incoming_.requests += live.requests_wall_ns.size();
    incoming_.token_events += live.tokens.size();
    if (live.day) ++incoming_.days;
    note_changes(subject.name, live);
  }

  void note_changes(const std::string& model, const LiveUsage& live) {
    if (live.old_requests + live.old_tokens > 0) {
      leave_out(model, events_text(live.old_requests, live.old_tokens) +
                           " of a minute ago or earlier, which no longer count");
    }
    if (live.future_requests + live.future_tokens > 0) {
      leave_out(model, "the times of " + events_text(live.future_requests, live.future_tokens) +
                           " in the future: they count as of now");
    }
    if (live.old_day_count > 0) {
      leave_out(model,
                text::counted(static_cast<uint64_t>(live.old_day_count), "request", "requests") +
                    " of a day that is over, or never began");
    }
  }

  void leave_out(const std::string& model, std::string text) {
    incoming_.left_out.push_back({.place = model_place(model), .text = std::move(text)});
  }

  const int64_t now_wall_ns_;
  Incoming incoming_;
};

}  // namespace

Incoming incoming_of(const transfer::GoRatelimitFile& file, int64_t now_wall_ns) {
  return IncomingMapping(now_wall_ns).read(file);
}

}  // namespace sluice::migration
