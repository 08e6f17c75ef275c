// Recognises frames in the standard layout, which clients nearly always send, by comparing a few
// words instead of calling the library.
// Flow:   decode() -> read_standard_frame(); on nullopt the library reads the frame.
// Shape:  one segment; a kind that request_layout.hpp has on the fast path, with structs as large
//         as ours or of an older client, which lack the last pointers, right behind their pointers;
//         each column a list of its kind, in the order of their pointers, none overlapping another.
//         Any other frame, valid or not, is left to the library.
// Errors: none: nullopt, without side effects.
// Lives:  columns point into the frame.
#pragma once

#include <optional>

#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::wire {

// The request with its values unchecked: request_checks.hpp checks them.
std::optional<ClientRequest> read_standard_frame(Frame frame) noexcept;

}  // namespace sluice::wire
