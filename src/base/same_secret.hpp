// Compares a secret with what a peer has shown, in a time that says nothing of where they differ.
// Shape:  every byte of `shown` is read; only its length, which the peer knows, sets the time.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::base {

// An empty secret is no secret: nothing equals it.
inline bool is_same_secret(std::string_view shown, std::string_view secret) noexcept {
  if (secret.empty()) return false;
  size_t difference = shown.size() ^ secret.size();
  for (size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    difference |= byte ^ static_cast<unsigned char>(secret[i % secret.size()]);
    asm volatile("" : "+r"(difference));  // the compiler must not end the loop early
  }
  return difference == 0;
}

}  // namespace sluice::base
