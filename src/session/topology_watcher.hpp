// A session whose client has asked for the nodes, and receives each change of them.
// Flow:   Context::topology_watchers -> on_topology_changed() -> a TopologyReply with the id 0.
// Lives:  in the list from the client's first question until the session ends.
#pragma once

#include <boost/intrusive/list.hpp>

namespace sluice::session {

struct TopologyTag;

class TopologyWatcher : public boost::intrusive::list_base_hook<
                            boost::intrusive::tag<TopologyTag>,
                            boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  virtual void on_topology_changed() noexcept = 0;

 protected:
  ~TopologyWatcher() = default;
};

using TopologyWatchers =
    boost::intrusive::list<TopologyWatcher,
                           boost::intrusive::base_hook<boost::intrusive::list_base_hook<
                               boost::intrusive::tag<TopologyTag>,
                               boost::intrusive::link_mode<boost::intrusive::auto_unlink>>>,
                           boost::intrusive::constant_time_size<false>>;

}  // namespace sluice::session
