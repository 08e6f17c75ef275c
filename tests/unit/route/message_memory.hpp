// Memory for messages of a test.
#pragma once

#include "base/mapped_region.hpp"
#include "route/mesh.hpp"

namespace sluice::route {

class MessageMemory {
 public:
  MessageMemory(uint32_t messages_max, uint32_t entries_max)
      : region_(Mailbox::memory_bytes(messages_max, entries_max), "messages of a test") {}
  std::byte* data() const { return region_.data(); }

 private:
  base::MappedRegion region_;
};

}  // namespace sluice::route
