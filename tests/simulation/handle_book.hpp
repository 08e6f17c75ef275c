// The handles of one shard's keys, as they should be: which numbers are held, by how many
// connections, and of which keys.
// Flow:   the Oracle enters each call of a worker about handles, and its result.
// Errors: reported to the run's Failure.
// Lives:  one per shard.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "api/entry.hpp"
#include "failure.hpp"

namespace sluice::simulation {

class HandleBook {
 public:
  HandleBook(uint32_t handles_max, Failure& failure) : max_(handles_max), failure_(failure) {}

  void interned(const std::string& key, api::Handle handle);
  void dropped(api::Handle handle);
  // The key of a handle that a connection holds; without one it is a failure.
  std::string key_held(api::Handle handle) const;
  // The shard has as many.
  void check_count(uint32_t count) const;

 private:
  // A key by number, and how many references there are to its handle.
  struct Interned {
    std::string key;
    uint32_t holders = 0;
  };

  const uint32_t max_;
  Failure& failure_;
  std::map<api::Handle, Interned> handles_;
  std::map<std::string, api::Handle> numbers_;
};

}  // namespace sluice::simulation
