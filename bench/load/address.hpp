// "HOST:PORT": the client's.
#pragma once

#include "sluicegate/address.hpp"

namespace sluice::load {

using sluicegate::Address;
using sluicegate::parse_address;

}  // namespace sluice::load
