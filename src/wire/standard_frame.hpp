// Recognises the frames that clients send nearly always, by a few words instead of the library.
// Flow:   decode() -> read_standard_frame(); nothing: the library reads the frame.
// Shape:  one segment; a kind that request_layout.hpp has on the fast path, with structs as large
//         as ours, right behind their pointers; each column a list of its kind, in the order of
//         their pointers, none overlapping another. Whatever is unlike that is none of its
//         business, valid or not.
// Errors: none: it says nothing, and changes nothing.
// Lives:  columns point into the frame.
#pragma once

#include <optional>

#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::wire {

// As it lies in the frame: its values are still to be checked (request_checks.hpp).
std::optional<ClientRequest> read_standard_frame(Frame frame) noexcept;

}  // namespace sluice::wire
