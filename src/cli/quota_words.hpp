// Quotas on the command line: reads limits as words, and prints their state as text and as JSON.
// Shape:  NAME:METRIC:AMOUNT[/PERIOD][:KIND], as tpm:tokens:30000/60s:sliding. PERIOD is a number
//         with ms, s, m, h or d, or hour, day, week or month of the calendar, [@TIME_ZONE].
//         JSON has the fields of docs/rest.md.
// Errors: std::invalid_argument, with every complaint in a line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluicegate/client.hpp"
#include "text/json.hpp"

namespace sluice::cli {

sluicegate::Quota quota_of_words(const std::vector<std::string>& limits);
// As quota_of_words() reads it, with printable names; count_cached has no word.
std::string limit_words(const sluicegate::Limit& limit);
// As the body of a PUT has it: {"limits": [...]}.
sluicegate::Quota quota_of_json(std::string_view text);

// From 16 hexadecimal digits.
uint64_t parse_reservation(std::string_view text);

// Of names that the command line gives: throws std::invalid_argument for those that no subject has;
// check_reserved() also for what one reservation may not name.
void check_subjects(const std::vector<std::string>& names);
void check_reserved(const std::vector<std::string>& names);

// The subject has no quota, neither from run time nor from a file.
bool has_no_quota(const sluicegate::SubjectState& subject) noexcept;
// "gpt-5 has no quota: ...", and how it gets one; in lines.
std::string no_quota_text(std::string_view subject);
// The subjects without any limit: most often the name differs from the quota's. Only a hint,
// because the call stands: empty where the server does not answer.
std::vector<std::string> unlimited_of(sluicegate::Client& client,
                                      std::span<const std::string_view> names);
// A hint for subjects that were admitted without any limit; empty where there are none.
std::string no_limits_text(const std::vector<std::string>& subjects);

// The definition alone, as a PUT takes it.
text::Json quota_json(const sluicegate::Quota& quota);
text::Json subject_json(const sluicegate::SubjectState& subject);
// With `names`, the subjects of the call, each limit that denies has its subject's.
text::Json outcome_json(const sluicegate::QuotaOutcome& outcome,
                        std::span<const std::string> names = {});

// A heading, and a line for each limit; in columns.
std::string subjects_text(const std::vector<sluicegate::SubjectState>& subjects);
// "tpm_exceeded: per-minute token limit reached; again in 12345 ms", and a line for each limit that
// denies; where the call has several subjects, `names`, with its subject's.
std::string denial_text(const sluicegate::QuotaOutcome& outcome,
                        std::span<const std::string> names = {});

}  // namespace sluice::cli
