// An entry as a request to an instance of gocc.
// Shape:  /rate/KEY?ik=true, and what gocc knows of the entry. The key is escaped as Go's library
//         does it: gocc takes the text of any other escape for a part of the key.
// Errors: gocc ignores parameters that it does not know, so an entry that needs one is no request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/entry.hpp"

namespace sluice::peer {

struct GoccRequest {
  std::string_view method;
  std::string path;
  std::string_view correlation_id;  // lies where the entry's does; empty: none
};

// Nothing: gocc cannot answer it.
std::optional<GoccRequest> gocc_request(const api::Entry& entry);

// The answer to one: the body is the request's id.
struct GoccAnswer {
  uint16_t status = 0;
  std::string_view body;
};
api::Verdict verdict_of(const GoccAnswer& answer) noexcept;
// What an entry is answered that gocc has denied: it would wait if its node had room for a waiter.
api::Verdict denial_of(const api::Entry& entry) noexcept;
// 0: there is none.
uint64_t request_id_of(const GoccAnswer& answer) noexcept;

}  // namespace sluice::peer
