// Requests to the REST dialect's /rate, and what their answers must be, whichever version of HTTP
// carries them.
// Flow:   HttpPeer, Http2Peer -> targets; answers and the oracle's decisions -> wrong_in().
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "peer.hpp"

namespace sluice::simulation {

struct RestAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

std::string percent_encoded(const std::string& key);
// The target of a request for permits, with a wait limit by chance; and of one that releases them.
std::string acquire_target(World& world, const AskedEntry& entry);
std::string release_target(World& world, const AskedEntry& entry);
// Whether the server lets no request override limits as this one does.
bool is_forbidden(const World& world, const AskedEntry& entry);

// Of a waiter: what it waited for, once that is known.
api::Verdict verdict_of(const DecidedEntry& entry);
uint64_t number_in(const std::string& text);

// What is wrong with the answer to a decision; empty: nothing.
std::string wrong_in(Oracle& oracle, const DecidedEntry& entry, const RestAnswer& answer,
                     bool json);

}  // namespace sluice::simulation
