// A request that all nodes answer: what each of them is asked, and their answers in one JSON text.
// Flow:   target with cluster=true -> target_of_each() -> node_request() -> every node, this one
//         included; their answers -> nodes_text() -> the client.
// Shape:  {"nodes":[{"node":"a:8080","answer":{...}}],"unanswered":[{"node":"b:8080","reason":"..."
//         }]}; an answer with another status than 200 has "status", one that is no JSON is a text.
//         docs/rest.md, "All nodes".
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
