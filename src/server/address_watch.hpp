// Resolves the names of the other instances, again and again: containers start again with
// other addresses.
// Flow:   names -> resolve -> AddressBook, from which workers take addresses when they connect.
// Shape:  one thread that sleeps. Names that have no address yet are asked for every second, others
//         every 5 s. Literal addresses are there from the start.
// Errors: a name that no longer resolves keeps its last addresses.
// Lives:  stop() does not wait for a name server: the thread goes on alone with what it shares.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/host_addresses.hpp"
#include "peer/address_book.hpp"
#include "peer/instance_list.hpp"

namespace sluice::server {

class AddressWatch {
 public:
  using Resolve = std::function<io::ResolvedHost(const std::string& name)>;

  AddressWatch(const std::vector<peer::Instance>& instances, Resolve resolve);
  ~AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  peer::AddressBook& addresses() noexcept { return shared_->book; }

 private:
  struct Shared {
    explicit Shared(const std::vector<peer::Instance>& of, Resolve with);

    // Returns whether all have addresses.
    bool resolve_all();
    void run();

    const std::vector<peer::Instance> instances;
    const Resolve resolve;
    peer::AddressBook book;
    std::mutex mutex;  // of what follows
    std::condition_variable changed;
    bool is_stopped = false;
  };

  std::shared_ptr<Shared> shared_;
};

}  // namespace sluice::server
