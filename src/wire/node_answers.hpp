// A request with cluster=true concerns all nodes: this makes the request that each of them is sent,
// and one JSON text of what they answer.
// Flow:   the client's target -> target_of_each() -> node_request() -> each node, this one too;
//         their answers -> nodes_text() -> the client.
// Shape:  {"nodes":[{"node":"a:8080","answer":{...}}],"unanswered":[{"node":"b:8080","reason":"..."
//         }]}. An answer that is JSON is copied as it is, without being read: whoever received it
//         has checked it. Any other is a string, cut short; one with another status than 200 has
//         "status". docs/rest.md, "All nodes".
// Bounds: a node whose answer does not fit any more is among the unanswered ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::wire {

// The target without its parameter `cluster`, recognized as the reader of queries does: so no node
// asks the others once more. Bytes that may not stand in a target are escaped.
std::string target_of_each(std::string_view target);

// The whole request, of HTTP/1.1, on a connection that ends with its answer.
std::string node_request(std::string_view method, std::string_view target, std::string_view host);

// The reason when there is no room for an answer.
inline constexpr std::string_view answer_too_long = "its answer is too long here: ask it alone";

struct NodeAnswer {
  std::string node;  // host and port
  uint16_t status = 0;
  bool is_json = false;  // by its content type
  std::string body;
  std::string reason;  // why there is no answer; empty: there is one
};

// At most `bytes_max`, and never less than the names of all nodes take.
std::string nodes_text(std::span<const NodeAnswer> answers, size_t bytes_max);

}  // namespace sluice::wire
