#include "scripted_server.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>

#include "sluicegate/quota.hpp"
#include "sluicegate/verdict.hpp"
#include "tests/unit/client/fake_server.hpp"

namespace sluicegate::simulation {
namespace {

using namespace std::chrono_literals;

template <typename Data, typename Sizes>
std::vector<std::string> split(Data data, Sizes sizes) {
  std::vector<std::string> texts;
  size_t at = 0;
  for (const auto size : sizes) {
    texts.emplace_back(data.asChars().begin() + at, size);
    at += size;
  }
  return texts;
}

template <typename Frame>
void note_terms(const std::vector<std::shared_ptr<Asked>>& entries, Frame frame) {
  const auto costs = frame.getCosts();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (costs.size() > 0) entries[i]->cost = costs[static_cast<capnp::uint>(i)];
  }
}

std::string named(const char* what, uint64_t number) {
  return std::string{what} + ":" + std::to_string(number);
}

}  // namespace

ScriptedServer::ScriptedServer(uint64_t seed, Surroundings& surroundings, Ledger& ledger)
    : dice_{seed}, surroundings_{surroundings}, ledger_{ledger} {
  shards_ = static_cast<uint32_t>(1 + dice_.below(3));
  plan_trouble();
}

ScriptedServer::Peer* ScriptedServer::alive(uint32_t connection) {
  const auto found = peers_.find(connection);
  return found == peers_.end() ? nullptr : &found->second;
}

Clock::duration ScriptedServer::some_time() {
  const uint64_t roll = dice_.below(100);
  if (roll < 70) return std::chrono::microseconds{dice_.below(2'000)};
  if (roll < 93) return std::chrono::microseconds{dice_.below(60'000)};
  return std::chrono::microseconds{dice_.below(1'500'000)};
}

// ------------------------------------------------------------------------ coming, going, trouble

Arrival ScriptedServer::knock() {
  const bool is_down = surroundings_.now() < down_until_;
  if (!is_down && (is_calm_ || !dice_.percent(6))) return Arrival::accepted;
  event("attempts that failed");
  return dice_.percent(80) ? Arrival::refused : Arrival::silent;
}

void ScriptedServer::accept(uint32_t connection) {
  peers_[connection];
  ledger_.connections[connection];
}

void ScriptedServer::client_left(uint32_t connection) {
  peers_.erase(connection);
}

void ScriptedServer::plan_trouble() {
  surroundings_.after(std::chrono::milliseconds{20 + dice_.below(500)}, [this] {
    if (is_calm_) return;
    make_trouble();
    plan_trouble();
  });
}

void ScriptedServer::make_trouble() {
  if (dice_.percent(15)) return restart();
  if (peers_.empty() || dice_.percent(30)) return;
  auto peer = peers_.begin();
  std::advance(peer, static_cast<ptrdiff_t>(dice_.below(peers_.size())));
  const uint32_t connection = peer->first;
  if (!peer->second.is_greeted || peer->second.is_draining) return;
  if (dice_.percent(60)) {
    event("connections closed");
    return end(connection, dice_.percent(50));
  }
  event("connections drained");
  peer->second.is_draining = true;
  surroundings_.write(
      connection, test::answer(0, [](auto frame) { frame.initGoAway(); }),
      [this, connection] { ledger_.connections[connection].went_away = surroundings_.now(); });
  surroundings_.after(some_time(), [this, connection] { end(connection, false); });
}

void ScriptedServer::restart() {
  event("restarts");
  const bool at_once = dice_.percent(50);
  std::vector<uint32_t> all;
  for (const auto& [connection, peer] : peers_) all.push_back(connection);
  for (const uint32_t connection : all) end(connection, at_once);
  down_until_ = surroundings_.now() + some_time();
  ++instance_;
  shards_ = static_cast<uint32_t>(1 + dice_.below(3));
}

void ScriptedServer::end(uint32_t connection, bool at_once) {
  if (peers_.erase(connection) == 0) return;
  surroundings_.close(connection, at_once, [this, connection] {
    auto& ended = ledger_.connections[connection].ended;
    if (!ended) ended = surroundings_.now();
    ledger_.troubles.insert(surroundings_.now());
  });
}

// --------------------------------------------------------------------------------- being asked

void ScriptedServer::receive(uint32_t connection, std::string_view bytes) {
  Peer* peer = alive(connection);
  if (peer == nullptr) return;
  peer->inbound.append(bytes);
  for (;;) {
    if (peer->inbound.size() < sizeof(uint64_t)) return;
    uint64_t table = 0;
    std::memcpy(&table, peer->inbound.data(), sizeof table);
    const size_t words = 1 + (table >> 32);
    if (peer->inbound.size() < words * sizeof(uint64_t)) return;
    std::vector<uint64_t> frame(words);
    std::memcpy(frame.data(), peer->inbound.data(), words * sizeof(uint64_t));
    peer->inbound.erase(0, words * sizeof(uint64_t));
    capnp::FlatArrayMessageReader message{kj::ArrayPtr<const capnp::word>(
        reinterpret_cast<const capnp::word*>(frame.data()), frame.size())};
    take_frame(connection, *peer, message.getRoot<schema::ClientFrame>());
    peer = alive(connection);
    if (peer == nullptr) return;
  }
}

ScriptedServer::Entries ScriptedServer::note(uint32_t connection, uint64_t frame,
                                             const std::vector<std::string>& names) {
  Entries entries;
  for (uint32_t place = 0; place < names.size(); ++place) {
    entries.push_back(
        std::make_shared<Asked>(Asked{.connection = connection, .frame = frame, .place = place}));
    ledger_.asked[names[place]].push_back(entries.back());
  }
  return entries;
}

void ScriptedServer::take_frame(uint32_t connection, Peer& peer,
                                schema::ClientFrame::Reader frame) {
  const uint64_t id = frame.getId();
  if (frame.isHello()) return greet(connection, frame.getHello());
  if (!peer.is_greeted) ledger_.complaints.push_back("a frame before Hello");
  if (peer.unanswered.contains(id) || peer.open.contains(id)) {
    ledger_.complaints.push_back("an id that is in use");
  }
  if (peer.unanswered.size() >= peer.outstanding_max) {
    ledger_.complaints.push_back("more frames outstanding than Welcome allows");
  }
  peer.unanswered[id] = true;
  auto& used = ledger_.connections[connection].used;
  if (!used && !frame.isIntern()) used = surroundings_.now();
  const auto by_reservation = [&](const char* what, auto request) {
    std::vector<std::string> names;
    for (const uint64_t each : request.getReservations()) names.push_back(named(what, each));
    answer_later(connection, id, Kind::other, note(connection, id, names));
  };
  const auto by_subject = [&](Kind kind, auto request) {
    const auto entries =
        note(connection, id, split(request.getSubjects(), request.getSubjectSizes()));
    for (const auto& each : entries) each->may_wait = (request.getFlags() & 1) != 0;
    answer_later(connection, id, kind, entries);
  };
  switch (frame.which()) {
    case schema::ClientFrame::ACQUIRE: {
      const auto acquire = frame.getAcquire();
      auto names = split(acquire.getKeys(), acquire.getKeySizes());
      for (size_t i = 0; i < names.size(); ++i) {
        // A key that has a handle is asked for by many calls: its cost distinguishes them.
        if (names[i].starts_with("h")) {
          names[i] = named(names[i].c_str(), acquire.getCosts()[static_cast<unsigned>(i)]);
        }
      }
      const auto entries = note(connection, id, names);
      note_terms(entries, acquire);
      for (const auto& each : entries) each->may_wait = (acquire.getFlags() & 1) != 0;
      return answer_later(connection, id, Kind::acquire, entries);
    }
    case schema::ClientFrame::ACQUIRE_BY_HANDLE: {
      const auto acquire = frame.getAcquireByHandle();
      std::vector<std::string> names;
      for (size_t i = 0; i < acquire.getHandles().size(); ++i) {
        const auto key = peer.keys.find(acquire.getHandles()[static_cast<unsigned>(i)]);
        if (key == peer.keys.end()) {
          ledger_.complaints.push_back("a handle that this connection does not hold");
          names.emplace_back("nothing");
          continue;
        }
        names.push_back(named(key->second.c_str(), acquire.getCosts()[static_cast<unsigned>(i)]));
      }
      event("batches by handle");
      return answer_later(connection, id, Kind::acquire, note(connection, id, names));
    }
    case schema::ClientFrame::RELEASE: {
      const auto release = frame.getRelease();
      std::vector<std::string> names;
      for (const std::string& key : split(release.getKeys(), release.getKeySizes())) {
        names.push_back("release:" + key);
        ++ledger_.releases[key];
      }
      return answer_later(connection, id, Kind::release, note(connection, id, names));
    }
    case schema::ClientFrame::WITHDRAW:
      return withdraw(connection, peer, id, frame.getWithdraw());
    case schema::ClientFrame::INTERN:
      return intern(connection, peer, id, frame.getIntern());
    case schema::ClientFrame::RESERVE:
      return by_subject(Kind::reserve, frame.getReserve());
    case schema::ClientFrame::CHECK:
      return by_subject(Kind::other, frame.getCheck());
    case schema::ClientFrame::RECORD:
      return by_subject(Kind::other, frame.getRecord());
    case schema::ClientFrame::CONSUME:
      return by_subject(Kind::other, frame.getConsume());
    case schema::ClientFrame::SETTLE:
      return by_reservation("settle", frame.getSettle());
    case schema::ClientFrame::CANCEL:
      for (const uint64_t each : frame.getCancel().getReservations()) ++ledger_.cancels[each];
      return by_reservation("cancel", frame.getCancel());
    case schema::ClientFrame::EXTEND: {
      const auto extend = frame.getExtend();
      const std::vector<std::string> names(extend.getReservations().size(),
                                           named("extend", extend.getLifetimeMs()));
      return answer_later(connection, id, Kind::other, note(connection, id, names));
    }
    case schema::ClientFrame::PING:
      return surroundings_.after(some_time(), [this, connection, id] {
        if (Peer* there = alive(connection)) {
          there->unanswered.erase(id);
          surroundings_.write(connection, test::answer(id, [](auto to) { to.setPong(); }), {});
        }
      });
    default:
      ledger_.complaints.push_back("a frame of another kind");
  }
}

void ScriptedServer::greet(uint32_t connection, schema::Hello::Reader hello) {
  Peer& peer = peers_[connection];
  peer.is_greeted = true;
  peer.outstanding_max = static_cast<uint32_t>(1 + dice_.below(6));
  const uint64_t roll = is_calm_ ? 100 : dice_.below(100);
  if (roll < 2) return;  // silent
  if (roll < 4) return end(connection, dice_.percent(50));
  if (roll < 6) {
    surroundings_.write(connection,
                        test::error(0, schema::ErrorCode::TOO_MANY_CONNECTIONS, "too many"), {});
    return end(connection, false);
  }
  const uint32_t wanted = hello.getWantedShard();
  const uint32_t own = wanted == 0 ? 0 : (wanted - 1) % shards_;
  ConnectionStory& story = ledger_.connections[connection];
  story.instance = instance_;
  story.wanted = wanted == 0 ? 0 : wanted - 1;
  story.shards = shards_;
  const std::string welcome = test::welcome(
      peer.outstanding_max, {.own = own, .count = shards_, .routing_seed = instance_});
  surroundings_.after(some_time() / 8, [this, connection, welcome] {
    if (alive(connection) == nullptr) return;
    ledger_.connections[connection].is_welcome = true;
    surroundings_.write(connection, welcome, [this] {
      ledger_.troubles.insert(surroundings_.now());  // there may be fewer shards than before
    });
  });
}

void ScriptedServer::intern(uint32_t connection, Peer& peer, uint64_t id,
                            schema::Intern::Reader intern) {
  std::vector<uint32_t> handles;
  std::vector<uint8_t> verdicts;
  for (const std::string& key : split(intern.getKeys(), intern.getKeySizes())) {
    const bool has_room = dice_.percent(90);
    next_handle_ += static_cast<uint32_t>(1 + dice_.below(3));
    handles.push_back(has_room ? next_handle_ : 0xFFFF'FFFF);
    verdicts.push_back(static_cast<uint8_t>(has_room ? Verdict::approved : Verdict::handles_full));
    if (has_room) peer.keys[next_handle_] = key;
  }
  surroundings_.after(some_time() / 4, [this, connection, id, handles, verdicts] {
    Peer* there = alive(connection);
    if (there == nullptr) return;
    there->unanswered.erase(id);
    surroundings_.write(connection, test::interned(id, handles, verdicts),
                        [this] { ledger_.troubles.insert(surroundings_.now()); });
  });
}

// ----------------------------------------------------------------------------------- answering

Reply ScriptedServer::decide(Kind kind, const Asked& asked) {
  const uint64_t roll = dice_.below(100);
  const bool is_quota = kind == Kind::reserve || kind == Kind::other;
  const auto code = [&](Verdict verdict, QuotaCode quota) {
    return is_quota ? static_cast<uint8_t>(quota) : static_cast<uint8_t>(verdict);
  };
  if (asked.may_wait && asked.replies.empty() && roll < 60) {
    return {.is_final = false, .code = code(Verdict::queued, QuotaCode::queued)};
  }
  if (roll < 70) {
    Reply reply{.is_approved = true, .code = code(Verdict::approved, QuotaCode::ok)};
    if (kind == Kind::reserve) reply.reservation = next_reservation_++;
    return reply;
  }
  if (roll < 72) {
    return {.is_draining = true, .code = code(Verdict::draining, QuotaCode::draining)};
  }
  if (!asked.replies.empty()) return {.code = code(Verdict::wait_limit, QuotaCode::wait_limit)};
  return {.code = code(Verdict::denied, QuotaCode::tpm_exceeded)};
}

void ScriptedServer::answer_later(uint32_t connection, uint64_t id, Kind kind, Entries entries) {
  peers_[connection].open[id] = entries;
  surroundings_.after(some_time(), [this, connection, id, kind, entries] {
    Peer* peer = alive(connection);
    if (peer == nullptr) return;
    peer->unanswered.erase(id);
    const uint64_t roll = is_calm_ ? 100 : dice_.below(1'000);
    if (roll < 15) return refuse(connection, id, entries);
    if (roll < 18) {  // breaks the protocol
      event("broken answers");
      const std::string broken = test::verdicts(id + 1'000'000, 1, {1});
      surroundings_.write(connection, broken, [this, connection] {
        ledger_.connections[connection].ended = surroundings_.now();
        ledger_.troubles.insert(surroundings_.now());
      });
      return;
    }
    answer(connection, id, kind, entries);
  });
}

void ScriptedServer::reply(uint32_t connection, std::string bytes,
                           const std::vector<std::pair<Asked*, size_t>>& written, Entries keep) {
  surroundings_.write(connection, std::move(bytes), [this, written, keep = std::move(keep)] {
    for (const auto& [asked, index] : written) {
      asked->replies[index].arrived = surroundings_.now();
    }
  });
}

void ScriptedServer::refuse(uint32_t connection, uint64_t id, const Entries& entries) {
  const bool is_draining = dice_.percent(30);
  const auto code = is_draining ? schema::ErrorCode::DRAINING : schema::ErrorCode::BAD_COST;
  std::vector<std::pair<Asked*, size_t>> written;
  for (const auto& each : entries) {
    each->replies.push_back(
        {.is_refusal = true, .is_draining = is_draining, .code = static_cast<uint8_t>(code)});
    written.emplace_back(each.get(), each->replies.size() - 1);
  }
  peers_[connection].open.erase(id);
  event("frames refused");
  reply(connection, test::error(id, code, "no"), written, entries);
}

void ScriptedServer::answer(uint32_t connection, uint64_t id, Kind kind, const Entries& entries) {
  if (kind == Kind::release) {
    peers_[connection].open.erase(id);
    std::vector<std::pair<Asked*, size_t>> written;
    for (const auto& each : entries) {
      each->replies.push_back({.is_approved = true, .code = 1});
      written.emplace_back(each.get(), each->replies.size() - 1);
    }
    return reply(connection, test::answer(id, [](auto to) { to.setDone(); }), written, entries);
  }
  std::vector<uint8_t> codes;
  std::vector<uint64_t> reservations;
  std::vector<std::pair<Asked*, size_t>> written;
  Entries queued;
  for (const auto& each : entries) {
    each->replies.push_back(decide(kind, *each));
    written.emplace_back(each.get(), each->replies.size() - 1);
    codes.push_back(each->replies.back().code);
    reservations.push_back(each->replies.back().reservation);
    if (!each->replies.back().is_final) queued.push_back(each);
  }
  if (kind == Kind::acquire) {
    reply(connection, test::verdicts(id, static_cast<unsigned>(codes.size()), codes), written,
          entries);
  } else {
    reply(
        connection,
        test::answer(id,
                     [&](auto frame) {
                       auto to = frame.initQuotaAnswers();
                       to.setCount(static_cast<uint32_t>(codes.size()));
                       to.setCodes(kj::arrayPtr(codes.data(), codes.size()));
                       if (kind == Kind::reserve) {
                         to.setReservations(kj::arrayPtr(reservations.data(), reservations.size()));
                       }
                     }),
        written, entries);
  }
  if (queued.empty()) {
    peers_[connection].open.erase(id);
    return;
  }
  event("frames queued");
  grant_later(connection, id, kind, queued);
}

// Grants the waiters one or several at a time, each after a while.
void ScriptedServer::grant_later(uint32_t connection, uint64_t id, Kind kind, Entries queued) {
  kinds_[uint64_t{connection} << 32 | id] = kind;
  surroundings_.after(some_time(), [this, connection, id, kind, queued = std::move(queued)] {
    if (alive(connection) == nullptr) return;
    Entries granted, left;
    for (const auto& each : queued) {
      if (each->final_word() != nullptr) continue;  // withdrawn meanwhile
      (granted.empty() || dice_.percent(50) ? granted : left).push_back(each);
    }
    if (!granted.empty()) grant(connection, id, granted, false);
    if (!left.empty()) grant_later(connection, id, kind, left);
  });
}

void ScriptedServer::grant(uint32_t connection, uint64_t id, const Entries& granted,
                           bool is_withdrawn) {
  const Kind kind = kinds_.at(uint64_t{connection} << 32 | id);
  const bool is_quota = kind != Kind::acquire;
  std::vector<uint32_t> places;
  std::vector<uint8_t> codes;
  std::vector<uint64_t> reservations;
  std::vector<std::pair<Asked*, size_t>> written;
  for (const auto& each : granted) {
    const Reply withdrawn{.code = is_quota ? static_cast<uint8_t>(QuotaCode::withdrawn)
                                           : static_cast<uint8_t>(Verdict::withdrawn)};
    each->replies.push_back(is_withdrawn ? withdrawn : decide(kind, *each));
    written.emplace_back(each.get(), each->replies.size() - 1);
    places.push_back(each->place);
    codes.push_back(each->replies.back().code);
    reservations.push_back(each->replies.back().reservation);
  }
  event(is_withdrawn ? "withdrawals done" : "grants");
  reply(
      connection,
      test::answer(id,
                   [&](auto frame) {
                     auto to = frame.initGranted();
                     to.setEntries(kj::arrayPtr(places.data(), places.size()));
                     if (is_quota) {
                       to.setCodes(kj::arrayPtr(codes.data(), codes.size()));
                       if (kind == Kind::reserve) {
                         to.setReservations(kj::arrayPtr(reservations.data(), reservations.size()));
                       }
                     } else {
                       to.setVerdicts(kj::arrayPtr(codes.data(), codes.size()));
                     }
                   }),
      written, granted);
  Peer& peer = peers_[connection];
  const auto open = peer.open.find(id);
  if (open == peer.open.end()) return;
  const bool is_complete =
      std::all_of(open->second.begin(), open->second.end(),
                  [](const auto& each) { return each->final_word() != nullptr; });
  if (is_complete) peer.open.erase(open);
}

void ScriptedServer::withdraw(uint32_t connection, Peer& peer, uint64_t id,
                              schema::Withdraw::Reader withdraw) {
  const uint64_t target = withdraw.getTarget();
  Entries named_entries;
  const auto open = peer.open.find(target);
  for (const auto& [name, all] : ledger_.asked) {
    for (const auto& each : all) {
      if (each->connection != connection || each->frame != target) continue;
      for (const uint32_t place : withdraw.getEntries()) {
        if (place != each->place) continue;
        ++each->withdrawals;
        named_entries.push_back(each);
      }
    }
  }
  if (named_entries.size() != withdraw.getEntries().size()) {
    ledger_.complaints.push_back("a withdrawal of entries that nobody asked for");
  }
  // Grants that are on their way cross the withdrawal.
  if (dice_.percent(30) && open != peer.open.end()) {
    Entries granted;
    for (const auto& each : named_entries) {
      if (each->final_word() == nullptr) granted.push_back(each);
    }
    if (!granted.empty()) {
      event("grants across a withdrawal");
      grant(connection, target, granted, false);
    }
  }
  surroundings_.after(some_time() / 2, [this, connection, id, target, named_entries] {
    Peer* there = alive(connection);
    if (there == nullptr) return;
    there->unanswered.erase(id);
    surroundings_.write(connection, test::answer(id, [](auto to) { to.setDone(); }), {});
    Entries waiting;
    for (const auto& each : named_entries) {
      if (each->final_word() == nullptr) waiting.push_back(each);
    }
    if (!waiting.empty()) grant(connection, target, waiting, true);
  });
}

}  // namespace sluicegate::simulation
