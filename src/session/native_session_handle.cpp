// Keys by number: Intern, AcquireByHandle, Forget.
// Flow:   plain requests by handle go to the shard as numbers, to other shards as the keys' texts
//         and hashes; all others become entries with the keys' texts, like requests by key.
#include <system_error>

#include "base/assert.hpp"
#include "session/native_session.hpp"

namespace sluice::session {

using api::Verdict;

void NativeSession::on_intern(uint64_t id, const wire::InternRequest& request) noexcept {
  auto& handles = context_.scratch.indexes;
  auto& verdicts = context_.scratch.verdicts;
  handles.clear();
  verdicts.clear();
  const char* key = request.keys.data();
  for (const uint16_t size : request.key_sizes) {
    handles.push_back(api::no_handle);
    verdicts.push_back(intern({key, size}, handles.back()));
    key += size;
  }
  write(wire::interned_bytes_max(static_cast<uint32_t>(handles.size())),
        [&](auto out) { return wire::encode_interned(id, handles, verdicts, out); });
}

Verdict NativeSession::intern(std::string_view key, api::Handle& handle) noexcept {
  if (key.empty() || key.size() > context_.options.key_bytes_max) return Verdict::invalid_key;
  if (sent_go_away_) return Verdict::draining;
  if (make_handle_set()) handle = context_.backend.intern(key);
  if (handle == api::no_handle) {
    ++context_.handles_refused;
    return Verdict::handles_full;
  }
  if (!handles_->add(handle)) {
    context_.backend.drop_reference(handle);  // a connection holds each handle once
  } else if (!context_.backend.owns(handle)) {
    ++other_shard_handles_;
  }
  return Verdict::approved;
}

// Off the request path: the one place where a connection allocates memory of its own.
bool NativeSession::make_handle_set() noexcept {
  if (handles_ != nullptr) return true;
  if (context_.departed_handles.size() >= limits::departed_sets_max) return false;
  try {
    handles_ = std::make_unique<HandleSet>(context_.options.handles_max);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void NativeSession::on_forget(uint64_t id, const wire::ForgetRequest& request) noexcept {
  for (const api::Handle handle : request.handles) {
    if (handles_ == nullptr || !handles_->remove(handle)) continue;
    if (!context_.backend.owns(handle)) --other_shard_handles_;
    context_.backend.drop_reference(handle);
  }
  write(wire::small_answer_bytes_max, [&](auto out) { return wire::encode_done(id, out); });
}

// False: not now, as in on_frame().
bool NativeSession::on_acquire_by_handle(uint64_t id, size_t frame_bytes,
                                         const wire::AcquireByHandleRequest& acquire) noexcept {
  const bool is_plain =
      acquire.has_defaults_only() && handles_ != nullptr && handles_->holds_all(acquire.handles);
  return is_plain ? on_plain_handles(id, frame_bytes, acquire)
                  : on_detailed_handles(id, frame_bytes, acquire);
}

// A connection that holds only handles of this shard's keys pays nothing for other shards. With one
// of another shard the owners of each frame's handles are read.
bool NativeSession::on_plain_handles(uint64_t id, size_t frame_bytes,
                                     const wire::AcquireByHandleRequest& acquire) noexcept {
  const bool is_own = other_shard_handles_ == 0;
  if (is_own) {
    make_own_room(static_cast<uint32_t>(acquire.handles.size()));
  } else {
    if (!accept_key_text(id, context_.backend.find_keys(acquire.handles))) return true;
    if (!make_room_for_keys(acquire.handles.size())) return false;
  }
  if (connection_.finishing() || connection_.closing() || !admit(id, frame_bytes)) return true;
  const route::Request request = request_of(id, frame_bytes, acquire);
  connection_.reserve_output(
      wire::verdicts_bytes_max(static_cast<uint32_t>(acquire.handles.size()), 0));
  if (is_own) {
    context_.turn.add(request, acquire.handles);
  } else {
    context_.backend.add(request, acquire.handles);
  }
  return true;
}

// Whether a message to another shard can have so much text; if not the frame is refused.
bool NativeSession::accept_key_text(uint64_t id, size_t text_bytes) noexcept {
  if (text_bytes <= limits::handles_text_bytes_max) return true;
  write_error(id, ErrorCode::too_many_entries);
  return false;
}

bool NativeSession::on_detailed_handles(uint64_t id, size_t frame_bytes,
                                        const wire::AcquireByHandleRequest& acquire) noexcept {
  const bool is_own = other_shard_handles_ == 0;
  const Scratch& scratch = context_.scratch;
  look_up(acquire.handles, !is_own);
  if (is_own) {
    make_own_room(static_cast<uint32_t>(acquire.handles.size()));
  } else {
    if (!accept_key_text(id, scratch.key_text.size())) return true;
    const route::KeyColumn keys{.text = {scratch.key_text.data(), scratch.key_text.size()},
                                .sizes = scratch.key_sizes};
    if (!make_turn_room(keys, route::Form::detailed)) return false;
  }
  if (connection_.finishing() || connection_.closing() || !admit(id, frame_bytes)) return true;
  const auto entries = context_.turn.add(request_of(id, frame_bytes, acquire),
                                         static_cast<uint32_t>(acquire.handles.size()));
  for (size_t index = 0; index < entries.size(); ++index) {
    const std::string_view key = scratch.keys[index];
    entries[index] = {.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
  }
  fill_common(entries, acquire);
  if (!is_own) context_.backend.send_last();
  return true;
}

// The empty key, which is not valid, for a handle that the connection does not hold.
std::string_view NativeSession::key_of(api::Handle handle) const noexcept {
  if (handles_ == nullptr || !handles_->holds(handle)) return "";
  return context_.backend.key_of(handle);
}

// Puts the keys into the scratch; also their text, up to its bound, if they are to be routed.
void NativeSession::look_up(wire::Column<api::Handle> handles, bool is_routed) noexcept {
  Scratch& scratch = context_.scratch;
  scratch.keys.clear();
  scratch.key_sizes.clear();
  scratch.key_text.clear();
  for (const api::Handle handle : handles) {
    const std::string_view key = key_of(handle);
    scratch.keys.push_back(key);
    scratch.key_sizes.push_back(static_cast<uint16_t>(key.size()));
    if (!is_routed || scratch.key_text.size() > limits::handles_text_bytes_max) continue;
    scratch.key_text.insert(scratch.key_text.end(), key.begin(), key.end());
  }
}

}  // namespace sluice::session
