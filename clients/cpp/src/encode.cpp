// Encodes requests into frames of one segment, laid out in place at the end of the output by
// FrameLayout. Golden files of the `capnp` tool pin the schema's offsets below.
#include "encode_columns.hpp"
#include "sluicegate/frames.hpp"

namespace sluicegate {
namespace {

// Byte offsets into a struct's data, and indexes of its pointers.
namespace hello_at {
constexpr size_t version = 0, wanted_shard = 4, client_name = 0;
}
// Of Acquire and AcquireByHandle.
namespace question_at {
constexpr size_t details = 0, flags = 1, wait_limit_ms = 4;
}
namespace release_at {
constexpr size_t costs = 2;
}
namespace withdraw_at {
constexpr size_t target = 0, entries = 0;
}
namespace inspect_at {
constexpr size_t cursor = 0, limit = 8, key = 0;
}
constexpr size_t handles_at = 0;
constexpr size_t acquire_columns_at = 2;    // the first optional one
constexpr size_t by_handle_columns_at = 1;  // likewise

// ------------------------------------------------ shared by Acquire and AcquireByHandle

template <typename Question>
size_t optional_columns_words(const Question& question, size_t count) {
  require_column(question.costs.size(), count, "costs");
  require_column(question.max_requests.size(), count, "max_requests");
  require_column(question.max_requests_in_queue.size(), count, "max_requests_in_queue");
  require_column(question.may_wait.size(), count, "may_wait");
  require_column(question.window_ms.size(), count, "window_ms");
  return list_words<uint32_t>(question.costs.size()) +
         list_words<uint32_t>(question.max_requests.size()) +
         list_words<uint32_t>(question.max_requests_in_queue.size()) +
         list_words<uint8_t>(question.may_wait.size()) +
         list_words<uint64_t>(question.window_ms.size());
}

template <typename Question>
void set_head(FrameLayout& frame, const Question& question) {
  frame.set<uint8_t>(question_at::details, question.details);
  frame.set<uint8_t>(question_at::flags, question.all_may_wait ? schema::FRAME_MAY_WAIT : 0);
  frame.set<uint32_t>(question_at::wait_limit_ms, question.wait_limit_ms);
}

void add_wait_flags(FrameLayout& frame, size_t pointer, std::span<const uint8_t> may_wait) {
  if (may_wait.empty()) return;
  auto* flags = frame.add_list<uint8_t>(pointer, may_wait.size());
  for (const uint8_t each : may_wait) *flags++ = each != 0 ? schema::ENTRY_MAY_WAIT : uint8_t{0};
}

template <typename Question>
void add_optional_columns(FrameLayout& frame, size_t first_pointer, const Question& question) {
  add_column(frame, first_pointer, question.costs);
  add_column(frame, first_pointer + 1, question.max_requests);
  add_column(frame, first_pointer + 2, question.max_requests_in_queue);
  add_wait_flags(frame, first_pointer + 3, question.may_wait);
  add_column(frame, first_pointer + 4, question.window_ms);
}

}  // namespace

void encode(uint64_t id, const Hello& hello, std::vector<uint64_t>& out) {
  const std::string_view name = hello.client_name;
  auto frame =
      begin_frame<schema::Hello>(out, id, FrameKind::HELLO, list_words<char>(name.size() + 1));
  frame.set<uint16_t>(hello_at::version, protocol_version);
  frame.set<uint32_t>(hello_at::wanted_shard, hello.wanted_shard ? *hello.wanted_shard + 1 : 0);
  char* text = frame.add_list<char>(hello_at::client_name, name.size() + 1);  // and its NUL
  std::copy(name.begin(), name.end(), text);
}

void encode(uint64_t id, const Acquire& acquire, std::vector<uint64_t>& out) {
  const size_t count = acquire.keys.size();
  const size_t key_bytes = key_bytes_sum(acquire.keys);
  const size_t columns_words = optional_columns_words(acquire, count);
  auto frame = begin_frame<schema::Acquire>(out, id, FrameKind::ACQUIRE,
                                            keys_words(key_bytes, count) + columns_words);
  set_head(frame, acquire);
  add_keys(frame, acquire.keys, key_bytes);
  add_optional_columns(frame, acquire_columns_at, acquire);
}

void encode(uint64_t id, const AcquireByHandle& acquire, std::vector<uint64_t>& out) {
  const size_t count = acquire.handles.size();
  const size_t columns_words = optional_columns_words(acquire, count);
  auto frame = begin_frame<schema::AcquireByHandle>(out, id, FrameKind::ACQUIRE_BY_HANDLE,
                                                    list_words<uint32_t>(count) + columns_words);
  set_head(frame, acquire);
  add_column(frame, handles_at, acquire.handles);
  add_optional_columns(frame, by_handle_columns_at, acquire);
}

void encode(uint64_t id, const Release& release, std::vector<uint64_t>& out) {
  const size_t count = release.keys.size();
  require_column(release.costs.size(), count, "costs");
  const size_t key_bytes = key_bytes_sum(release.keys);
  auto frame = begin_frame<schema::Release>(
      out, id, FrameKind::RELEASE,
      keys_words(key_bytes, count) + list_words<uint32_t>(release.costs.size()));
  add_keys(frame, release.keys, key_bytes);
  add_column(frame, release_at::costs, release.costs);
}

void encode(uint64_t id, const Withdraw& withdraw, std::vector<uint64_t>& out) {
  auto frame = begin_frame<schema::Withdraw>(out, id, FrameKind::WITHDRAW,
                                             list_words<uint32_t>(withdraw.entries.size()));
  frame.set<uint64_t>(withdraw_at::target, withdraw.target);
  add_column(frame, withdraw_at::entries, withdraw.entries);
}

void encode(uint64_t id, const Inspect& inspect, std::vector<uint64_t>& out) {
  const std::string_view key = inspect.key;
  auto frame =
      begin_frame<schema::Inspect>(out, id, FrameKind::INSPECT, list_words<char>(key.size()));
  frame.set<uint64_t>(inspect_at::cursor, inspect.cursor);
  frame.set<uint32_t>(inspect_at::limit, inspect.limit);
  if (!key.empty()) copy_key(frame.add_list<char>(inspect_at::key, key.size()), key);
}

void encode(uint64_t id, const Intern& intern, std::vector<uint64_t>& out) {
  const size_t key_bytes = key_bytes_sum(intern.keys);
  auto frame = begin_frame<schema::Intern>(out, id, FrameKind::INTERN,
                                           keys_words(key_bytes, intern.keys.size()));
  add_keys(frame, intern.keys, key_bytes);
}

void encode(uint64_t id, const Forget& forget, std::vector<uint64_t>& out) {
  auto frame = begin_frame<schema::Forget>(out, id, FrameKind::FORGET,
                                           list_words<uint32_t>(forget.handles.size()));
  add_column(frame, handles_at, forget.handles);
}

void encode(uint64_t id, const Ping&, std::vector<uint64_t>& out) {
  FrameLayout{out, id, static_cast<uint16_t>(FrameKind::PING)};
}

void encode(uint64_t id, const AskTopology&, std::vector<uint64_t>& out) {
  FrameLayout{out, id, static_cast<uint16_t>(FrameKind::TOPOLOGY)};
}

}  // namespace sluicegate
