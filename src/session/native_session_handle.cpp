// Keys by number: Intern, AcquireByHandle, Forget.
// Flow:   plain requests by handle go to the shard as numbers; all others, and those with keys of
//         other shards, become entries with the keys' text, like requests by key.
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
  } else if (!context_.backend.owns_key(key)) {
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
    const bool is_of_other_shard =
        other_shard_handles_ > 0 && !context_.backend.owns_key(context_.backend.key_of(handle));
    if (is_of_other_shard) --other_shard_handles_;
    context_.backend.drop_reference(handle);
  }
  write(wire::small_answer_bytes_max, [&](auto out) { return wire::encode_done(id, out); });
}

// False: not now, as in on_frame().
bool NativeSession::on_acquire_by_handle(uint64_t id, size_t frame_bytes,
                                         const wire::AcquireByHandleRequest& acquire) noexcept {
  const auto count = static_cast<uint32_t>(acquire.handles.size());
  const bool to_handle_slots = goes_to_handle_slots(acquire);
  if (to_handle_slots) {
    make_own_room(count);
  } else {
    look_up(acquire.handles);
    const Scratch& scratch = context_.scratch;
    if (scratch.key_text.size() > limits::handles_text_bytes_max) {
      write_error(id, ErrorCode::too_many_entries);
      return true;
    }
    const route::KeyColumn keys{.text = {scratch.key_text.data(), scratch.key_text.size()},
                                .sizes = scratch.key_sizes};
    if (!make_turn_room(keys, route::Form::detailed)) return false;
  }
  if (connection_.finishing() || connection_.closing() || !admit(id, frame_bytes)) return true;
  const route::Request request = request_of(id, frame_bytes, acquire);
  if (to_handle_slots) {
    connection_.reserve_output(wire::verdicts_bytes_max(count, 0));
    context_.turn.add(request, acquire.handles);
    return true;
  }
  const auto entries = context_.turn.add(request, count);
  for (size_t index = 0; index < count; ++index) {
    const std::string_view key = context_.scratch.keys[index];
    entries[index] = {.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
  }
  fill_common(entries, acquire);
  context_.backend.send_last();
  return true;
}

bool NativeSession::goes_to_handle_slots(
    const wire::AcquireByHandleRequest& acquire) const noexcept {
  return other_shard_handles_ == 0 && acquire.has_defaults_only() && handles_ != nullptr &&
         handles_->holds_all(acquire.handles);
}

// The empty key, which is not valid, for a handle that the connection does not hold.
std::string_view NativeSession::key_of(api::Handle handle) const noexcept {
  if (handles_ == nullptr || !handles_->holds(handle)) return "";
  return context_.backend.key_of(handle);
}

// Puts the keys into the scratch; also their text, up to its bound, if the router needs it.
void NativeSession::look_up(wire::Column<api::Handle> handles) noexcept {
  Scratch& scratch = context_.scratch;
  scratch.keys.clear();
  scratch.key_sizes.clear();
  scratch.key_text.clear();
  const bool is_routed = context_.options.shards > 1;
  for (const api::Handle handle : handles) {
    const std::string_view key = key_of(handle);
    scratch.keys.push_back(key);
    scratch.key_sizes.push_back(static_cast<uint16_t>(key.size()));
    if (!is_routed || scratch.key_text.size() > limits::handles_text_bytes_max) continue;
    scratch.key_text.insert(scratch.key_text.end(), key.begin(), key.end());
  }
}

}  // namespace sluice::session
