// The text of --instance-urls -> all instances that limit together, in its order.
// Flow:   --instance-urls -> parse_instances() -> find_own_place() -> FleetOptions.
// Shape:  "http://a:8080, http://b:8080": host names, IPv4, IPv6 in brackets. Only scheme, host and
//         port count; without a port it is the scheme's, 80 or 443. https is spoken as http.
//         Two items are the same instance if host and port are, whatever the letter case.
// Errors: std::runtime_error with one line that names the item and the cure.
// Bounds: limits::instances_max.
// Source: gocc's flag; it compares items as they are written, and takes some that lead nowhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::peer {

struct Instance {
  std::string url;   // "http://a:8080", always with its port
  std::string host;  // in lower case, without brackets
  uint16_t port = 0;
  bool operator==(const Instance&) const = default;

  // Host and port, as in a URL.
  std::string_view authority() const noexcept {
    return std::string_view(url).substr(url.find("//") + 2);
  }
};

struct InstanceList {
  std::vector<Instance> instances;
  std::vector<std::string> warnings;
};

InstanceList parse_instances(std::string_view text);

// One item, as --own-url has it; errors begin with `place`.
Instance parse_instance(std::string_view item, const std::string& place);

bool is_same(const Instance& a, const Instance& b) noexcept;

// "http://a:8080, http://b:8080"
std::string urls_of(const std::vector<Instance>& instances);

// Shows whether the lists of two nodes differ.
uint64_t list_digest(std::span<const Instance> instances) noexcept;

}  // namespace sluice::peer
