// What `import` and `export` print: quotas as a part of a configuration file, what was carried and
// what was not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "migration/incoming.hpp"
#include "migration/outgoing.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::cli {

// The quotas as a configuration file has them; its "quotas" can be pasted into another one.
std::string quotas_part(const std::vector<migration::IncomingSubject>& subjects);

// "3 models; of 2 the usage: 14 requests, 13 token entries, 2 days"
std::string carried_text(const migration::Incoming& incoming);
std::string carried_text(const migration::Outgoing& outgoing);

// A line for each, behind `start`: "not carried: model gpt-4o: ...".
std::string lines_of(const std::string& start, const std::vector<transfer::Complaint>& each);

void print_error(const std::string& text);

}  // namespace sluice::cli
