#include "server/worker.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "log/log.hpp"

namespace sluice::server {
namespace {

// Keys are swept in slices also while nothing else happens.
constexpr int64_t idle_wait_ns = 250 * base::ns_per_ms;
constexpr int64_t sweep_behind_wait_ns = base::ns_per_ms;
// How long a start waits for other nodes that do not answer.
constexpr int64_t peers_patience_ms = 2'000;

bool keeps_windows(const WorkerOptions& options) noexcept {
  return options.shard.kept_window_ms != base::never_ms;
}

wire::NodeState own_state(const session::Options& options) noexcept {
  return {.native_port = options.native_port,
          .shards = options.shards,
          .routing_seed = options.routing_seed,
          .instance_id = options.instance_id};
}

OwnCallBounds own_call_bounds(const WorkerOptions& options) noexcept {
  return {// All reservations that can be open, and those that answers of open tasks name.
          .cancels_max = size_t{options.quota.reservations_max} * options.sessions.shards +
                         size_t{options.tasks_max} * limits::quota_calls_max,
          .bindings_max = options.connections_max + spare_sockets + options.tasks_max};
}

session::Options session_options(const WorkerOptions& options) noexcept {
  session::Options sessions = options.sessions;
  sessions.drain_grace_ms = std::min(sessions.drain_grace_ms, options.drain_ms / 2);
  sessions.ownership = options.fleet.ownership();
  for (const peer::Instance& instance : options.fleet.instances) {
    sessions.node_names.emplace_back(instance.authority());
  }
  return sessions;
}

}  // namespace

uint32_t sockets_max(const WorkerOptions& options) {
  const route::NodeMap nodes(options.fleet.ownership(), options.sessions.shards);
  return options.connections_max + spare_sockets + peer::Peers::connections_max(nodes);
}

Worker::Worker(io::Io& io, const WorkerOptions& options, WorkerGroup& worker_group,
               Deciders deciders)
    : io_(io),
      worker_group_(worker_group),
      drain_ms_(options.drain_ms),
      stored_windows_(keeps_windows(options) ? options.state.source : nullptr),
      keys_(std::move(deciders.keys)),
      quotas_(std::move(deciders.quotas)),
      mailboxes_(worker_group.mesh(), static_cast<api::ShardId>(options.sessions.shard),
                 {options.fleet.ownership(), options.sessions.shards}),
      backend_({.worker_group = worker_group_,
                .keys = *keys_,
                .mailboxes = mailboxes_,
                .router = router_,
                .decisions = decisions_,
                .waiters = waiters_,
                .tasks = tasks_,
                .queries = queries_,
                .node_queries = node_queries_,
                .quota_tasks = quota_tasks_,
                .placement = placement_,
                .topology = topology_,
                .runner = runner_}),
      context_(backend_, session_options(options)),
      router_(mailboxes_, context_.turn, options.splits, options.sessions.handles_max),
      sessions_({.sockets_max = sockets_max(options),
                 .key_bytes_max = options.sessions.key_bytes_max,
                 .shards = options.sessions.shards,
                 .nodes = options.fleet.ownership().nodes_count()}),
      waiters_(context_, sessions_, mailboxes_, *keys_, *quotas_,
               mailboxes_.is_only_target() ? 0 : options.sessions.waiters_max),
      tasks_(options.tasks_max),
      queries_(context_, sessions_, mailboxes_, *keys_, *this, tasks_),
      node_queries_(sessions_),
      windows_(options.state, options.shard, *keys_),
      keeper_(options.state, store_options(options), *quotas_, windows_),
      node_calls_(context_, mailboxes_, waiters_, options.fleet),
      moved_quotas_(context_, mailboxes_, *quotas_, options.fleet, worker_group.moved_quotas()),
      quota_tasks_(io, context_, sessions_, mailboxes_, waiters_, *quotas_, keeper_, node_calls_,
                   options.fleet, tasks_, worker_group.arrival_clock(), own_call_bounds(options)),
      decisions_(context_, sessions_, router_.book(), waiters_, *keys_, worker_group.ids()),
      stand_in_(context_, mailboxes_, *keys_),
      runner_(context_, sessions_, decisions_, waiters_, *keys_, statistics_),
      placement_(io, worker_group, context_, sessions_, mailboxes_, statistics_,
                 options.connections_max),
      return_poll_(io, mailboxes_, options.return_poll_ns),
      topology_(options.fleet, options.sessions.rest_port, own_state(options.sessions)),
      events_(limits::turn_events) {
  // Subjects of an earlier start have its quotas: also an empty file takes them away.
  if (!options.rules.empty() || options.quotas != policy::QuotaRules{} ||
      options.state.source != nullptr) {
    auto book =
        std::make_unique<policy::RuleBook>(options.shard.policy, options.rules, options.quotas);
    quotas_->adopt(book->quotas(), {});
    while (quotas_->next_due_ns() == 0) quotas_->run_due({});  // no request waits yet
    keys_->adopt(std::move(book), {});
  }
  if (!mailboxes_.nodes().is_alone()) {
    const peer::Bounds bounds{.waiters_max = options.sessions.waiters_max + limits::turn_entries,
                              .sockets_max = sockets_max(options)};
    peers_ =
        std::make_unique<peer::Peers>(io, mailboxes_, options.fleet, bounds, *options.addresses,
                                      options.sessions.instance_id ^ mailboxes_.shard());
    node_queries_.attach(peers_->questions());
    peers_->set_rules(options.sessions.rules_digest);
    node_calls_.attach(*peers_);
    moved_quotas_.attach(*peers_);
    quota_tasks_.attach(*peers_);
  }
  worker_group_.attach(mailboxes_.shard(), &io_);
}

Worker::~Worker() {
  // Sessions close first: they take their waiters off the book and the shard.
  close_sessions();
}

RestoredWindows Worker::restore_windows() {
  if (stored_windows_ == nullptr) return {};
  const OwnKeys own{
      .shard = mailboxes_.shard(),
      .shards = mailboxes_.shards_count(),
      .is_own =
          [this](std::string_view key) { return mailboxes_.shard_of(key) == mailboxes_.shard(); },
      .is_of_other_node = [this](std::string_view key) { return !mailboxes_.nodes().owns(key); }};
  return stored_windows_->restore(*keys_, own, io_.now());
}

void Worker::start() noexcept {
  if (!peers_) return start_accepting();
  accepts_at_ms_ = base::floor_ms(io_.now().monotonic_ns) + peers_patience_ms;
}

void Worker::start_accepting() noexcept {
  accepts_at_ms_ = base::never_ms;
  listeners_open_ = 2;
  io_.accept_start(http_listener);
  io_.accept_start(native_listener);
}

void Worker::turn(int64_t wait_ns_max) noexcept {
  ++statistics_.turns;
  const int64_t wait = std::min(prepare_poll(), wait_ns_max);
  io_.receive_sparingly(!context_.ready.empty());
  const size_t count = io_.poll(events_, wait);
  mailboxes_.mark_awake();
  context_.now = io_.now();
  rates_.advance(context_.now.monotonic_ns, keys_->statistics());
  // Quota work that is due comes before new requests.
  if (quotas_->next_due_ns() <= context_.now.monotonic_ns) quotas_->run_due(context_.now);
  if (peers_) begin_turn_of_peers();
  context_.work.begin_turn(!context_.ready.empty());
  for (const io::Event& event : std::span(events_).first(count)) on_event(event);
  decisions_.execute();
  mailboxes_.receive(*this);
  if (peers_) peers_->deliver(*this);
  node_queries_.deliver();
  context_.room_made |= mailboxes_.take_room_made();
  quota_tasks_.answer_durable();
  quota_tasks_.make_own_calls();
  moved_quotas_.send();
  runner_.unblock();
  runner_.change_dialects();
  runner_.resume_ready();
  keys_->run_due(context_.now);
  quotas_->run_due(context_.now);
  waiters_.deliver_grants();
  runner_.run_timers();
  decisions_.execute();
  waiters_.deliver_grants();
  publish_waiting();  // before a client sees that it waits
  runner_.end_turn();
  check_drain();
  ASSERT(context_.turn.empty());
  runner_.free_departed_handles();
  quota_tasks_.make_own_calls();
  // Sessions that had to wait with Intern or Forget go on in the next turn.
  const bool interned = std::exchange(context_.handle_work, 0) > 0;
  if (interned && !context_.blocked.empty()) context_.room_made = true;
  keep_state();
  send_messages();
}

// A new epoch needs the cuts of all shards, also of those whose workers sleep.
void Worker::keep_state() noexcept {
  const uint64_t calls = quota_tasks_.calls_count();
  const bool begins = keeper_.keep(context_.now, calls - std::exchange(calls_kept_, calls));
  if (begins) wake_others();
}

void Worker::publish_waiting() noexcept {
  for (const auto what : {session::WaitsFor::permits, session::WaitsFor::quota}) {
    worker_group_.set_waiting(mailboxes_.shard(), what, context_.waits.waiting_count(what));
  }
}

// Sends what this turn has for other shards, and wakes those that sleep.
void Worker::send_messages() noexcept {
  waiters_.send_grants();
  mailboxes_.flush();
  if (peers_) peers_->end_turn();
  context_.room_made |= mailboxes_.take_room_made();
  if (peers_) warn_of_nodes();
  mailboxes_.ring_doorbells([this](uint32_t shard) { worker_group_.wake(shard); });
}

// Before it sleeps a worker sets its doorbell and checks its mailboxes once more, whatever it saw
// before, so that it sees a message, or the message's sender wakes it.
int64_t Worker::prepare_poll() noexcept {
  if (quota_tasks_.has_work() || runner_.has_work()) return 0;
  if (peers_ && peers_->has_work()) return 0;
  const int64_t wait = wait_ns();
  if (wait == 0 || return_poll_.finds_work()) return 0;
  return mailboxes_.prepare_sleep() ? wait : 0;
}

// Until the next deadline of the shard, of a connection or of draining.
int64_t Worker::wait_ns() const noexcept {
  int64_t wait = keys_->is_sweep_behind() ? sweep_behind_wait_ns : idle_wait_ns;
  const int64_t now_ns = context_.now.monotonic_ns;
  const int64_t drain_over_ms = was_force_closed_ ? base::never_ms : drain_deadline_ms_;
  const int64_t due_ns =
      std::min({keys_->next_due_ns(), quotas_->next_due_ns(), keeper_.due_ns(),
                quota_tasks_.durable_due_ns(), base::due_ns(moved_quotas_.due_ms()),
                base::due_ns(context_.timers.next_due_ms()), base::due_ns(drain_over_ms),
                base::due_ns(context_.node_bindings.due_ms()),
                peers_ ? base::due_ns(peers_->due_ms()) : base::never_ns});
  if (due_ns != base::never_ns) wait = std::min(wait, due_ns - now_ns);
  return std::max<int64_t>(wait, 0);
}

void Worker::on_event(const io::Event& event) noexcept {
  if (peers_ && is_of_other_node(event)) return peers_->on_event(event);
  switch (event.kind) {
    case io::EventKind::accepted:
      placement_.on_accepted(event);
      return;
    case io::EventKind::accept_failed:
      ++statistics_.accept_failures;
      worker_group_.shortages().note(event.result, context_.now);
      return;
    case io::EventKind::listener_closed:
      --listeners_open_;
      return;
    case io::EventKind::woken:
      return;
    case io::EventKind::refused:
      worker_group_.shortages().note_refusal(event.result, context_.now);
      return;
    case io::EventKind::closed:
      placement_.on_closed(event.socket);
      return;
    case io::EventKind::released:
      placement_.on_released(event);
      return;
    case io::EventKind::failed:
      if (ShortageLog::is_shortage(event.result)) {
        worker_group_.shortages().note(event.result, context_.now);
      }
      runner_.on_event(event);
      return;
    case io::EventKind::connected:
    case io::EventKind::received:
    case io::EventKind::end_of_stream:
    case io::EventKind::hung_up:
    case io::EventKind::sent:
      runner_.on_event(event);
      return;
  }
}

// Whether the event's socket is a connection to another node.
bool Worker::is_of_other_node(const io::Event& event) const noexcept {
  switch (event.kind) {
    case io::EventKind::accept_failed:
    case io::EventKind::listener_closed:
    case io::EventKind::woken:
    case io::EventKind::refused:
      return false;  // it has no socket
    default:
      return peers_->uses(event.socket);
  }
}

// Callers are served when other nodes are connected to each worker, or were tried.
void Worker::begin_turn_of_peers() noexcept {
  const int64_t now_ms = context_.now_ms();
  peers_->begin_turn(now_ms);
  end_lost_bindings();
  if (peers_->report(topology_)) {
    for (session::TopologyWatcher& watcher : context_.topology_watchers) {
      watcher.on_topology_changed();
    }
  }
  if (accepts_at_ms_ == base::never_ms) return;
  if (!knows_peers_ && peers_->are_known()) {
    knows_peers_ = true;
    if (worker_group_.note_ready_to_accept()) wake_others();
  }
  if (now_ms >= accepts_at_ms_ || worker_group_.are_ready_to_accept()) start_accepting();
}

// Of nodes whose lanes have been away for too long.
void Worker::end_lost_bindings() noexcept {
  context_.node_bindings.end_due(context_.now_ms(),
                                 [this](uint64_t binding) { quota_tasks_.end_binding(binding); });
}

void Worker::wake_others() noexcept {
  for (uint32_t shard = 0; shard < mailboxes_.shards_count(); ++shard) {
    if (shard != mailboxes_.shard()) worker_group_.wake(shard);
  }
}

void Worker::warn_of_nodes() noexcept {
  const auto warn = [this](CountedWarning& warning, uint64_t count, uint64_t& noted) {
    if (count != noted) warning.note(count - noted, context_.now);
    noted = count;
  };
  warn(worker_group_.misrouted(), context_.misrouted.entries(), misrouted_noted_);
  warn(worker_group_.calls_dropped(), node_calls_.dropped_count(), calls_dropped_noted_);
}

void Worker::adopt(route::Handover& handover) noexcept {
  session::Session* const session = placement_.adopt(handover);
  if (session == nullptr) return;
  decisions_.execute();  // entries may point into the handover's bytes, which end here
  if (context_.draining) session->begin_drain();
}

void Worker::on_message(api::ShardId origin, route::ShardMessage& message) noexcept {
  keeper_.before_message();
  for (route::Notice& notice : message.notices) waiters_.on_notice(origin, notice);
  decisions_.decide_for(origin, message);
  size_t returning_count = 0;
  for (const route::ShardTask task : message.tasks) {
    if (decide(task)) message.tasks[returning_count++] = task;
  }
  message.tasks.resize(returning_count);
  for (const api::Grant& grant : message.grants) waiters_.on_grant(grant);
  for (route::Handover& handover : message.handovers) adopt(handover);
  message.handovers.clear();  // adopted, with their bytes
  waiters_.deliver_grants();
}

// False: the task stays here, and does not return with its message.
bool Worker::decide(const route::ShardTask& task) noexcept {
  return std::visit(
      base::Overloaded{[this](ShardQuery* query) {
                         queries_.answer(*query);
                         return true;
                       },
                       [this](QuotaTask* quotas) { return quota_tasks_.on_sent(*quotas); },
                       [this](StandInTask* stand_in) {
                         stand_in_.decide(*stand_in);
                         return true;
                       }},
      task);
}

void Worker::on_parcel(peer::QuotaParcel& parcel) noexcept {
  if (parcel.of == peer::QuotaParcel::Of::moved_quotas) return moved_quotas_.on_parcel(parcel);
  quota_tasks_.on_parcel(parcel);
}

void Worker::on_returned(route::TargetId target, route::ShardMessage& message) noexcept {
  keeper_.before_message();
  for (const route::Notice& notice : message.notices) waiters_.on_notice_returned(notice);
  decisions_.on_returned(target, message);
  for (const route::ShardTask& task : message.tasks) {
    std::visit(base::Overloaded{[this](ShardQuery* query) { queries_.on_answered(*query); },
                                [this](QuotaTask* quotas) { quota_tasks_.on_decided(*quotas); },
                                [this](StandInTask* stand_in) { stand_in_.on_decided(*stand_in); }},
               task);
  }
}

std::unique_ptr<policy::RuleBook> Worker::adopt(std::unique_ptr<policy::RuleBook> rules) noexcept {
  ++statistics_.rules_adopted;
  quotas_->adopt(rules->quotas(), context_.now);
  context_.set_rules(rules->digest());
  if (peers_) peers_->set_rules(rules->digest());
  return keys_->adopt(std::move(rules), context_.now);
}

void Worker::begin_drain() noexcept {
  if (context_.draining) return;
  context_.draining = true;
  drain_deadline_ms_ = context_.now_ms() + drain_ms_;
  if (listeners_open_ == 0) start_accepting();
  io_.accept_finish(http_listener);
  io_.accept_finish(native_listener);
  keys_->drain(context_.now);
  quotas_->drain(context_.now);
  waiters_.deliver_grants();
  waiters_.leave_other_nodes();
  runner_.begin_drain();
  send_messages();
}

bool Worker::drained() const noexcept {
  return context_.draining && listeners_open_ == 0 && sessions_.open_count() == 0 && idle() &&
         (!peers_ || peers_->are_closed());
}

bool Worker::idle() const noexcept {
  return placement_.idle() && !quota_tasks_.has_own_calls() && !quota_tasks_.keeps_any() &&
         !quota_tasks_.has_undurable() && tasks_.used_count() == 0 && mailboxes_.idle() &&
         node_calls_.is_idle() && quota_tasks_.is_idle_for_nodes() &&
         router_.book().open_count() == 0 && context_.waits.tickets_count() == 0;
}

void Worker::check_drain() noexcept {
  if (context_.draining && peers_) waiters_.leave_other_nodes();  // also who was just queued there
  if (context_.draining && peers_ && sessions_.open_count() == 0 && idle()) peers_->close();
  if (context_.now_ms() < drain_deadline_ms_) return;
  // What sessions send at last leaves with the next turn; close() would keep it back.
  if (!std::exchange(has_ended_drain_, true)) return runner_.end_drain();
  was_force_closed_ = true;
  runner_.force_close();
}

ShardStatistics Worker::shard_statistics() const noexcept {
  return {.shard_id = mailboxes_.shard(),
          .shard = keys_->statistics(),
          .quota = quotas_->statistics(),
          .worker = statistics_,
          .io = io_.statistics(),
          .io_name = io_.name(),
          .rates = rates_.per_second(context_.now.monotonic_ns, keys_->statistics()),
          .keys = keys_->keys_count(),
          .waiters = keys_->waiters_count(),
          .handles = keys_->handles_count(),
          .subjects = quotas_->subjects_count(),
          .reservations = quotas_->reservations_count(),
          .quota_waiters = quotas_->waiters_count(),
          .connections = sessions_.open_count(),
          .drained_entries = context_.drained_entries,
          .handles_refused = context_.handles_refused,
          .other_shard_entries = router_.other_shard_entries(),
          .wakes = mailboxes_.wakes(),
          .misrouted_entries = context_.misrouted.entries(),
          .node_calls_dropped = node_calls_.dropped_count(),
          .has_uncut_changes = keeper_.has_changes(),
          .windows_behind_ns = windows_.behind_ns(context_.now.monotonic_ns)};
}

ProcessStatistics Worker::process_statistics() const noexcept {
  ProcessStatistics statistics{.rules_refused = worker_group_.rules_refused(),
                               .log_lines_lost = log::lines_lost(),
                               .quotas_to_hand_over = worker_group_.moved_quotas().left()};
  keeper_.add_statistics(statistics, context_.now);
  return statistics;
}

void Worker::add_node_statistics(std::vector<NodeStatistics>& nodes) const {
  if (!peers_) return;
  nodes.resize(peers_->all().size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].node = peers_->all()[i]->host();
    nodes[i].counts += peers_->counts(i);
  }
}

uint64_t Worker::reserved_bytes() const noexcept {
  return keys_->reserved_bytes() + quotas_->reserved_bytes() + context_.waits.reserved_bytes() +
         sessions_.reserved_bytes() + router_.reserved_bytes() + quota_tasks_.reserved_bytes() +
         windows_.reserved_bytes() + keeper_.reserved_bytes();
}

}  // namespace sluice::server
