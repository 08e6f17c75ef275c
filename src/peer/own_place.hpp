// Which item of --instance-urls this process is.
// Flow:   instances, --port, --bind, --own-url -> find_own_place() -> FleetOptions::own_node.
// Shape:  --own-url decides if it is given. Otherwise the item has our port, and the first of these
//         that finds one item: the address of --bind; our host name, whole or up to its first dot,
//         as text; the addresses that the items' names resolve to, which are tried again for a
//         while: the name of a container may not resolve before it is ready.
// Errors: std::runtime_error with one line that names the items and the cure.
// Lives:  start only; waits, and logs a line about it every few seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "peer/instance_list.hpp"
#include "peer/machine.hpp"

namespace sluice::peer {

struct OwnPlaceOptions {
  std::string own_url;  // empty: to be found
  uint16_t port = 0;
  std::string bind;  // an address; empty: all
  int64_t patience_ns = 30 * base::ns_per_s;
};

// Checks what needs neither time nor machine: --own-url, and that an item has our port.
void check_own_place(const std::vector<Instance>& instances, const OwnPlaceOptions& options);

// The index of the item.
uint16_t find_own_place(const std::vector<Instance>& instances, const OwnPlaceOptions& options,
                        Machine& machine);

}  // namespace sluice::peer
