// The streams of a connection of HTTP/2, and which of them are to go on.
// Flow:   open() -> [wait_for_shard(), wait_for_walk()] -> note() after each event of a stream ->
//         next_to_decide(), end_wait_for_walk(), next_asking(), for_unfinished() -> remove().
// Lives:  as long as their session; streams end with it.
#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstddef>

#include "session/http2_stream.hpp"

namespace sluice::session {

class Http2Streams {
 public:
  Http2Streams() = default;
  ~Http2Streams() { streams_.clear_and_dispose(Http2Stream::Delete()); }
  Http2Streams(const Http2Streams&) = delete;
  Http2Streams& operator=(const Http2Streams&) = delete;

  // The last of all so far.
  Http2Stream& open(Http2Connection& connection, wire::Http2StreamId id) noexcept {
    return *streams_.insert(streams_.end(), Http2Stream::make(connection, id));
  }
  // Null: there is none, any more.
  Http2Stream* find(wire::Http2StreamId id) noexcept {
    const auto found = streams_.find(id);
    return found == streams_.end() ? nullptr : &*found;
  }
  void remove(Http2Stream& stream) noexcept {
    streams_.erase_and_dispose(streams_.iterator_to(stream), Http2Stream::Delete());
  }

  size_t size() const noexcept { return streams_.size(); }
  bool empty() const noexcept { return streams_.empty(); }
  auto begin() noexcept { return streams_.begin(); }
  auto end() noexcept { return streams_.end(); }
  bool is_any_waiting() const noexcept {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const Http2Stream& stream) { return stream.is_waiting(); });
  }

  // The stream waits for the end of another one's walk. end_wait_for_walk() notes the one that has
  // waited longest, and returns what note() does.
  void wait_for_walk(Http2Stream& stream) noexcept { to_walk_.push_back(stream); }
  bool end_wait_for_walk() noexcept { return !to_walk_.empty() && note(take_first(to_walk_)); }
  // Resets all that wait until the client has read answers.
  void reset_put_off() noexcept {
    const auto reset = [](Http2Stream* stream) { stream->reset(); };
    to_walk_.clear_and_dispose(reset);
    asking_.remove_and_dispose_if([](auto& stream) { return stream.is_put_off(); }, reset);
  }

  // The stream waits until the shard that decides it takes more.
  void wait_for_shard(Http2Stream& stream) noexcept { to_decide_.push_back(stream); }
  bool has_to_decide() const noexcept { return !to_decide_.empty(); }
  Http2Stream& next_to_decide() noexcept { return take_first(to_decide_); }

  // What is next for the stream. Returns whether it has joined those that are to ask the shards.
  bool note(Http2Stream& stream) noexcept {
    SessionHook<UnfinishedTag>& unfinished = stream;
    if (!stream.is_unfinished()) {
      unfinished.unlink();
    } else if (!unfinished.is_linked()) {
      unfinished_.push_back(stream);
    }
    const bool is_listed =
        stream.SessionHook<AskingTag>::is_linked() || stream.SessionHook<WalkTag>::is_linked();
    if (!stream.is_ready() || is_listed) return false;
    asking_.push_back(stream);
    return true;
  }

  // Those that are to ask the shards, or wait for room for an answer, the one that has waited
  // longest first.
  bool has_asking() const noexcept { return !asking_.empty(); }
  Http2Stream& next_asking() noexcept { return take_first(asking_); }

  // Whether one has something to do at a turn's end, and room for its answer.
  bool may_any_go_on() const noexcept {
    return std::any_of(unfinished_.begin(), unfinished_.end(),
                       [](const Http2Stream& stream) { return stream.has_room(); });
  }
  // Calls `handle(stream)`, which may remove it, for each that has something to do at the turn's
  // end.
  template <typename Handle>
  void for_unfinished(Handle handle) noexcept {
    for (auto next = unfinished_.begin(); next != unfinished_.end();) handle(*next++);
  }

 private:
  struct ById {
    using type = wire::Http2StreamId;
    type operator()(const Http2Stream& stream) const noexcept { return stream.id(); }
  };
  template <typename Tag>
  using List = boost::intrusive::list<Http2Stream, boost::intrusive::base_hook<SessionHook<Tag>>,
                                      boost::intrusive::constant_time_size<false>>;

  template <typename Streams>
  static Http2Stream& take_first(Streams& streams) noexcept {
    Http2Stream& stream = streams.front();
    streams.pop_front();
    return stream;
  }

  boost::intrusive::set<Http2Stream, boost::intrusive::key_of_value<ById>> streams_;
  List<AskingTag> asking_;
  List<AskingTag> to_decide_;
  List<WalkTag> to_walk_;
  List<UnfinishedTag> unfinished_;
};

}  // namespace sluice::session
