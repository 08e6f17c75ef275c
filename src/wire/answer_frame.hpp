// The start of every answer frame, and the encoding of the columns of a table.
// Flow:   encode_*() of capnp_codec_encode.cpp and capnp_codec_quota_encode.cpp.
// Units:  byte offsets into a struct's data, indexes of its pointers (`capnp compile -ocapnp`).
#pragma once

#include <sluicegate.capnp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "wire/answer_layout.hpp"
#include "wire/frame_reader.hpp"
#include "wire/frame_writer.hpp"

namespace sluice::wire {

template <typename Struct>
constexpr StructShape shape_of{Struct::_capnpPrivate::dataWordSize,
                               Struct::_capnpPrivate::pointerCount};

using Kind = schema::ServerFrame::Which;

namespace frame_at {
constexpr size_t id = 0, kind = 8, body = 0;
}

constexpr size_t frame_head_bytes = FrameWriter::head_bytes + shape_of<schema::ServerFrame>.bytes();

constexpr size_t list_bytes(size_t count, size_t element_bytes) noexcept {
  return words_for(count * element_bytes) * word_bytes;
}

inline FrameWriter::Struct add_frame(FrameWriter& writer, uint64_t id, Kind kind) noexcept {
  const auto frame = writer.add_root(shape_of<schema::ServerFrame>);
  writer.set(frame, frame_at::id, id);
  writer.set(frame, frame_at::kind, static_cast<uint16_t>(kind));
  return frame;
}

template <typename Struct>
FrameWriter::Struct add_body(FrameWriter& writer, uint64_t id, Kind kind) noexcept {
  const auto frame = add_frame(writer, id, kind);
  return writer.add_struct(frame, frame_at::body, shape_of<Struct>);
}

// ------------------------------------------------------------------ columns by answer_layout.hpp

template <typename Column, typename Item>
void add_column(FrameWriter& writer, FrameWriter::Struct parent, size_t pointer,
                const Column& column, std::span<const Item> items) noexcept {
  writer.add_column<typename Column::Number>(parent, pointer, items, column.value);
}

template <size_t pointer, typename Rows, typename Item>
void add_column(FrameWriter& writer, FrameWriter::Struct parent, const Rows& rows,
                std::span<const Item> items) noexcept {
  add_column(writer, parent, pointer, std::get<pointer>(rows), items);
}

template <typename Column>
constexpr size_t column_bytes(const Column&, size_t count) noexcept {
  return list_bytes(count, sizeof(typename Column::Number));
}

template <typename Rows>
constexpr size_t columns_bytes(const Rows& rows, size_t count) noexcept {
  size_t bytes = 0;
  each_column(rows, [&](size_t, const auto& column) { bytes += column_bytes(column, count); });
  return bytes;
}

}  // namespace sluice::wire
