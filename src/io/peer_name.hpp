// The peer's address of a connected socket, for people to read.
// Shape:  "192.0.2.7:51234", "[2001:db8::7]:51234"; IPv4 shows as such also where both families
//         share a listener.
// Errors: empty when the peer has gone.
#pragma once

#include <string>

namespace sluice::io {

std::string peer_name(int fd);

}  // namespace sluice::io
