"""A soak: clients of both dialects keep their own books, and hold them against the limits.

    tests/soak/soak.py [--seconds 300] [--shards 2] [--io auto]

Skewed keys, waits, withdrawals by disconnecting, releases, frames whose keys belong to several
shards, beside the load of `sluicegate bench`, while the configuration file changes four times a
second, now and then for the worse. At the end: no key was approved more often than its windows and
releases allow, every shard has taken over new rules, nobody waits or is connected any more, and the
server's memory stayed flat. SLUICEGATE names the binary.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from http_peer import HttpPeer, metrics, request, totals  # noqa: E402
from native_peer import (APPROVED, QUEUED, NativePeer, acquire_frame,  # noqa: E402
                         release_frame)
from server_process import ServerProcess, binary, eventually  # noqa: E402

LIMIT = 20
WINDOW_S = 0.25  # the shortest that any rule asks for
KEYS = 300
RELOADS_PER_S = 4

# Keys that end so have either entry in alternating versions of the configuration file. Limits and
# windows go up and down; the book allows the most that a key may ever have.
EVEN = r"soak\d*[02468]$"
ONE_OR_THREE = r"soak\d*[13]$"
RULES = [
    [{"key_pattern": EVEN, "key_pattern_is_regex": True, "max_requests_per_window": LIMIT},
     {"key_pattern": ONE_OR_THREE, "key_pattern_is_regex": True, "max_requests_per_window": 5}],
    [{"key_pattern": EVEN, "key_pattern_is_regex": True, "max_requests_per_window": 8},
     {"key_pattern": ONE_OR_THREE, "key_pattern_is_regex": True, "max_requests_per_window": 5,
      "window_millis": 400}],
    [{"key_pattern": ONE_OR_THREE, "key_pattern_is_regex": True, "max_requests_per_window": 3},
     {"key_pattern": EVEN, "key_pattern_is_regex": True, "window_millis": 300,
      "max_requests_in_queue": 50}],
]
BAD_RULES = '{"keys": [{"key_pattern": "(", "key_pattern_is_regex": true}]}'


def limit_of(key):
    """The most permits that any version of the rules gives the key in a window."""
    return 5 if re.match(ONE_OR_THREE, key) else LIMIT


def write_rules(path, text):
    """In place or by renaming, as editors and deployments do."""
    if random.random() < 0.5:
        path.write_text(text)
        return
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


def change_rules(path, until):
    for number, rules in enumerate(itertools.cycle(RULES)):
        if time.monotonic() > until:
            return
        write_rules(path, BAD_RULES if number % 10 == 9 else json.dumps({"keys": rules}))
        time.sleep(1 / RELOADS_PER_S)


class Book:
    """What the server answered the clients, by key."""

    def __init__(self):
        self.lock = threading.Lock()
        self.approved = collections.Counter()
        self.released = collections.Counter()
        self.first = {}
        self.counts = collections.Counter()

    def approve(self, key, asked_at):
        with self.lock:
            self.approved[key] += 1
            self.first.setdefault(key, asked_at)
            self.counts["approved"] += 1

    def count(self, what, number=1):
        with self.lock:
            self.counts[what] += number

    def release(self, key):
        with self.lock:
            self.released[key] += 1
            self.counts["released"] += 1

    def check(self):
        """Windows that may have begun since a key's first approval, each with its permits. Returns
        what part of them the busiest key has used."""
        now = time.monotonic()
        busiest = 0
        for key, approved in self.approved.items():
            windows = int((now - self.first[key]) / WINDOW_S) + 2
            allowed = windows * limit_of(key) + self.released[key]
            assert approved <= allowed, f"{key}: {approved} approvals, {allowed} allowed"
            busiest = max(busiest, approved / allowed)
        return busiest


def pick(dice):
    """A few keys get most of the questions."""
    return f"soak{int(KEYS * dice.random() ** 4)}"


def rest_client(server, book, until, seed):
    dice = random.Random(seed)
    while time.monotonic() < until:
        with HttpPeer(server) as peer:
            for _ in range(dice.randrange(1, 200)):
                key, asked_at = pick(dice), time.monotonic()
                can_wait = dice.random() < 0.2
                peer.send(request("POST", f"/rate/{key}" + ("?canWait=true" if can_wait else "")))
                if can_wait and dice.random() < 0.2:
                    time.sleep(dice.random() * 0.05)
                    book.count("left while waiting")
                    break  # without its answer: perhaps an approval that no book shows
                status = peer.read().status
                assert status in (200, 429), status
                book.count("rest")
                if status != 200:
                    book.count("denied")
                    continue
                book.approve(key, asked_at)
                if dice.random() < 0.1:
                    book.release(key)  # first: it may be used before it is answered
                    assert peer.ask("DELETE", f"/rate/{key}/1").status == 200


def native_client(server, book, until, seed):
    dice = random.Random(seed)
    while time.monotonic() < until:
        with NativePeer(server) as peer:
            for number in range(dice.randrange(1, 60)):
                keys = [pick(dice) for _ in range(dice.randrange(1, 40))]
                may_wait = dice.random() < 0.3
                asked_at = time.monotonic()
                peer.send(acquire_frame(1_000 + number, keys, flags=1 if may_wait else 0))
                verdicts = peer.read("verdicts").verdicts
                waiting = set()
                for index, verdict in enumerate(verdicts):
                    if verdict == APPROVED:
                        book.approve(keys[index], asked_at)
                    elif verdict == QUEUED:
                        waiting.add(index)
                book.count("native", len(keys))
                if waiting and dice.random() < 0.3:
                    book.count("left while waiting", len(waiting))
                    break
                while waiting:
                    granted = peer.read("granted")
                    for place, verdict in zip(granted.entries, granted.verdicts):
                        waiting.remove(place)
                        if verdict == APPROVED:
                            book.approve(keys[place], asked_at)
                if dice.random() < 0.1:
                    key = keys[0]
                    book.release(key)
                    peer.send(release_frame(5_000 + number, [key]))
                    peer.read("done")


def soak(server, seconds, book, rules):
    failures = []
    until = time.monotonic() + seconds

    def run(client, seed):
        try:
            client(server, book, until, seed)
        except BaseException as error:  # the main thread reports it
            failures.append(error)

    threads = [threading.Thread(target=run, args=(client, seed), daemon=True)
               for seed, client in enumerate([rest_client] * 4 + [native_client] * 4)]
    threads.append(threading.Thread(target=change_rules, args=(rules, until), daemon=True))
    load = subprocess.Popen(
        [binary(), "bench", "--address", f"127.0.0.1:{server.native_port}", "--keys", "100000",
         "--distribution", "zipf", "--seconds", str(max(1, seconds - 2))],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for thread in threads:
        thread.start()
    warm = None
    started = time.monotonic()
    while time.monotonic() < until and not failures:
        time.sleep(1)
        resident = server.resident_bytes() / 2**20
        if warm is None and time.monotonic() - started > seconds / 4:
            warm = resident
        if int(time.monotonic() - started) % 10 == 0:
            print(f"{time.monotonic() - started:4.0f} s  {resident:6.1f} MiB  "
                  f"{dict(book.counts)}", flush=True)
        busiest = book.check()
    for thread in threads:
        thread.join(60)
    assert load.wait(60) == 0, "the load tool failed"
    assert not failures, failures[0]
    assert not any(thread.is_alive() for thread in threads), "a client still waits for an answer"
    return warm, busiest


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--io", default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(options, pathlib.Path(folder) / "rules.json")


def check_rules(server, shards):
    """New rules came to every shard, and bad ones were refused. How often."""
    series = metrics(server)
    adopted = [series[f'sluicegate_rules_adopted_total{{shard="{shard}"}}']
               for shard in range(shards)]
    refused = series["sluicegate_rules_refused_total"]
    assert all(adopted) and refused > 0, (adopted, refused)
    return f"rules adopted {adopted}, refused {refused}"


def run(options, rules):
    write_rules(rules, json.dumps({"keys": RULES[0]}))
    server = ServerProcess(options.io, options.shards, "--max-requests", str(LIMIT),
                           "--window-millis", str(int(WINDOW_S * 1_000)),
                           "--config-file", str(rules))
    book = Book()
    try:
        warm, busiest = soak(server, options.seconds, book, rules)
        eventually(lambda: totals(server)["sluicegate_waiters"] == 0, "nobody waits")
        eventually(lambda: totals(server)["sluicegate_connections"] == 1, "nobody is connected")
        resident = server.resident_bytes() / 2**20
        sums = totals(server)
        print(f"done: {dict(book.counts)}; of its permits the busiest key used {busiest:.0%}, "
              f"{check_rules(server, options.shards)}, "
              f"for other shards {sums['sluicegate_other_shard_entries_total']}, "
              f"connections {sums['sluicegate_accepted_total']}, "
              f"resident {warm:.1f} -> {resident:.1f} MiB")
        assert busiest > 0.5, "too little load to find anything"
        assert resident < warm * 1.1 + 8, "memory grew"
    finally:
        code = server.stop()
    assert code == 0 and server.errors == [], server.output()


if __name__ == "__main__":
    main()
