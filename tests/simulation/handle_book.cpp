#include "handle_book.hpp"

namespace sluice::simulation {

void HandleBook::interned(const std::string& key, api::Handle handle) {
  const auto number = numbers_.find(key);
  const bool known = number != numbers_.end();
  if (handle == api::no_handle) {
    if (known || handles_.size() < max_) {
      failure_.report("key " + key + " got no handle although there are some");
    }
    return;
  }
  if (handle >= max_) failure_.report("a handle is larger than it may be");
  if (known && number->second != handle) failure_.report("key " + key + " got a second handle");
  if (!known && handles_.contains(handle)) {
    failure_.report("key " + key + " got the handle of " + handles_[handle].key);
  }
  numbers_[key] = handle;
  handles_[handle].key = key;
  ++handles_[handle].holders;
}

void HandleBook::dropped(api::Handle handle) {
  const auto held = handles_.find(handle);
  if (held == handles_.end() || --held->second.holders > 0) return;
  numbers_.erase(held->second.key);
  handles_.erase(held);
}

std::string HandleBook::key_held(api::Handle handle) const {
  const auto held = handles_.find(handle);
  if (held != handles_.end()) return held->second.key;
  failure_.report("handle " + std::to_string(handle) + " is used, but no connection holds it");
  return {};
}

void HandleBook::check_count(uint32_t count) const {
  if (count == handles_.size()) return;
  failure_.report(std::to_string(count) + " handles are held where " +
                  std::to_string(handles_.size()) + " should be");
}

}  // namespace sluice::simulation
