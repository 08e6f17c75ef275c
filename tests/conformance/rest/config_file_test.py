"""Section 3: the file with limits by pattern: its syntax, the limits of keys, and its changes.
Run: `run --binary PATH config_file_test.py`."""

import itertools
import json
import os
import time

import pytest

from expectation import Like, by_first, named
from http_peer import request
from rest_peer import (Peer, counts_of, limits_of, permit, seen, settles, state_of, waiter)
from target import StartFailed

HOUR = ("--window-millis", "3600000")
W = 3_600_000
LINE, TRACE = "exit 2, 1 line", "exit 2, stack trace"


def rules(*entries):
    return json.dumps({"keys": list(entries)})


def for_all(limit, **fields):
    return rules({"key_pattern": ".*", "key_pattern_is_regex": True,
                  "max_requests_per_window": limit, **fields})


def config_of(server, key):
    """(limit, queue, window), or None."""
    state = state_of(server, key)
    return state and tuple(state["Config"][name] for name in
                           ("MaxRequestsPerWindow", "MaxRequestsInQueue", "WindowMillis"))


# ----------------------------------------------------------------- 3.1 and 3.2, limits of a key

ENTRIES = """{"keys": [
  {"key_pattern": "exact", "max_requests_per_window": 11},
  {"key_pattern": "lit.ral", "max_requests_per_window": 12},
  {"key_pattern": "premium-", "key_pattern_is_regex": true, "max_requests_per_window": 13},
  {"key_pattern": "^anchored$", "key_pattern_is_regex": true, "max_requests_per_window": 14},
  {"key_pattern": "^num-\\\\d+$", "key_pattern_is_regex": true, "max_requests_per_window": 15},
  {"key_pattern": "(?i)^icase$", "key_pattern_is_regex": true, "max_requests_per_window": 16},
  {"key_pattern": "^layer", "key_pattern_is_regex": true, "max_requests_per_window": 20,
   "max_requests_in_queue": 21, "window_millis": 7000000},
  {"key_pattern": "layer-1", "max_requests_per_window": 22},
  {"key_pattern": "layer-1", "max_requests_in_queue": 23, "window_millis": 8000000},
  {"key_pattern": "layer-2", "max_requests_per_window": 0, "max_requests_in_queue": 0},
  {"KEY_PATTERN": "upper", "Max_Requests_Per_Window": 24},
  {"key_pattern": "nulls", "key_pattern_is_regex": null, "max_requests_per_window": 25,
   "max_requests_in_queue": null, "window_millis": null},
  {"key_pattern": "long", "window_millis": 100000000},
  {"key_pattern": "å", "max_requests_per_window": 26},
  {"key_pattern": "with space", "max_requests_per_window": 27},
  {"key_pattern": "a%2Fb", "max_requests_per_window": 28},
  {"key_pattern": "a/b", "max_requests_per_window": 29},
  {"key_pattern": "twice", "max_requests_per_window": 1, "max_requests_per_window": 30}
]}"""


@pytest.fixture(scope="module")
def with_rules(shared, tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "limits.json"
    path.write_text(ENTRIES)
    return shared(*HOUR, "--config-file", str(path))


@pytest.mark.section("3.1")
@pytest.mark.parametrize("key, gocc", by_first([
    ("exact", (11, 400, W)), ("%20exact%20", (11, 400, W)), ("exactly", (100, 400, W)),
    ("Exact", (100, 400, W)), ("literal", (100, 400, W)), ("lit.ral", (12, 400, W)),
    ("a-premium-b", (13, 400, W)), ("Premium-", (100, 400, W)), ("anchored", (14, 400, W)),
    ("xanchored", (100, 400, W)), ("num-17", (15, 400, W)), ("num-x", (100, 400, W)),
    ("ICASE", (16, 400, W)), ("upper", (24, 400, W)), ("nulls", (25, 400, W)),
    ("long", (100, 400, 100_000_000)), ("%C3%A5", (26, 400, W)), ("with%20space", (27, 400, W)),
    ("twice", (30, 400, W))]))
def test_pattern(with_rules, expect, key, gocc):
    permit(with_rules, key)
    expect(config_of(with_rules, key.removeprefix("%20").removesuffix("%20")), gocc=gocc)


@pytest.mark.section("3.1")
def test_pattern_is_matched_against_the_key_as_it_is_seen(with_rules, expect):
    permit(with_rules, "a%2Fb")
    expect(config_of(with_rules, "a%2Fb"), gocc=(28, 400, W), ours=(29, 400, W),
           topic="key decoding")


@pytest.mark.section("3.2")
@pytest.mark.parametrize("key, gocc", by_first([
    ("layer", (20, 21, 7_000_000)), ("layer-1", (22, 23, 8_000_000)),
    ("layer-2", (20, 21, 7_000_000)), ("layer-12", (20, 21, 7_000_000))]))
def test_later_entries_win_field_by_field(with_rules, expect, key, gocc):
    permit(with_rules, key)
    expect(config_of(with_rules, key), gocc=gocc)


@pytest.mark.section("2.5")
def test_request_wins_over_file_and_flags(with_rules, expect):
    permit(with_rules, "a-premium-c", "maxRequestsInQueue=5")
    expect(config_of(with_rules, "a-premium-c"), gocc=(13, 5, W), of="one field")
    permit(with_rules, "a-premium-c", "maxRequests=6")
    expect(config_of(with_rules, "a-premium-c"), gocc=(6, 5, W), of="both")


@pytest.fixture
def try_with(try_start, tmp_path):
    """Starts a server with this text as its file: returns it, or a description of its end."""
    def try_it(text, *flags):
        path = tmp_path / "limits.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        server = try_start(*HOUR, *flags, "--config-file", str(path))
        if isinstance(server, StartFailed):
            return server.brief()
        server.file = path
        return server
    return try_it


@pytest.fixture
def start_with(try_with, expect):
    """The same for a valid file."""
    def start(text, *flags):
        server = try_with(text, *flags)
        if isinstance(server, str):
            expect(server, gocc="it starts")
        return server
    return start


def brief(server):
    return server if isinstance(server, str) else "it starts"


def entry(**fields):
    return rules({"key_pattern": "k", "max_requests_per_window": 11, **fields})


@pytest.mark.section("3.1")
@pytest.mark.parametrize("text", ["{}", '{"keys":[]}', '{"keys":null}', ' \n{"KEYS":[]}\n',
                                  entry(), entry(key_pattern_is_regex=True),
                                  entry(window_millis=3_600_001)])
def test_valid_file(try_with, expect, text):
    server = try_with(text)
    expect(brief(server), gocc="it starts")


@pytest.mark.section("3.1")
@pytest.mark.parametrize("text, key, gocc", named([
    ("an unknown field", entry(nonsense=1), "k", 11),
    ("an unknown name outside", '{"keys":[], "nonsense":1}', "k", 100),
    ("no pattern", rules({"max_requests_per_window": 11}), "k", 100),
    ("an empty literal pattern", entry(key_pattern=""), "k", 100),
    ("a regular expression that is none", entry(key_pattern="(", key_pattern_is_regex=True), "(",
     100),
    ("a window of 5 ms", entry(window_millis=5), "k", 11),
    ("a window of two years", entry(window_millis=63_072_000_000), "k", 11),
    ("a limit above 1e9", entry(key_pattern="x", max_requests_per_window=1_000_000_001), "k", 100),
    ("a negative queue", entry(max_requests_in_queue=-1), "k", 11)]))
def test_odd_file(try_with, expect, text, key, gocc):
    server = try_with(text)
    if not isinstance(server, str):
        permit(server, key)
        # A key with windows of 5 ms may expire before it is observed.
        limits = limits_of(server, key)
        server = limits[0] if limits else gocc
    expect(server, gocc=gocc, ours=LINE, topic="config file")


@pytest.mark.section("3.1")
def test_empty_regular_expression_matches_every_key(start_with, expect, key):
    server = start_with(entry(key_pattern="", key_pattern_is_regex=True))
    permit(server, key)
    expect(limits_of(server, key)[0], gocc=11)


@pytest.mark.section("3.1")
@pytest.mark.parametrize("text", named([
    ("a fraction", entry(max_requests_per_window=1.5)), ("text for a number",
                                                         entry(window_millis="10")),
    ("1.0", entry(window_millis=1.0)), ("1e3", '{"keys":[{"window_millis":1e3}]}'),
    ("true for a number", entry(max_requests_in_queue=True)),
    ("a number for a pattern", entry(key_pattern=5)),
    ("text for a boolean", entry(key_pattern_is_regex="true")),
    ("too many digits", entry(window_millis=10**20)), ("keys that are no list", '{"keys":{}}'),
    ("an entry that is no object", '{"keys":[5]}'), ("a list", "[]"), ("text", '"keys"'),
    ("nothing", ""), ("half an object", '{"keys":['), ("a comma too many", '{"keys":[],}'),
    ("a comment", '{"keys":[]} // none'), ("something behind it", '{"keys":[]} {}')]))
def test_bad_file(try_with, expect, text):
    server = try_with(text)
    expect(brief(server), gocc=TRACE, ours=LINE,
           topic="exit codes")


@pytest.mark.section("3.1")
@pytest.mark.parametrize("text", named([
    ("null", "null"), ("an entry that is null", '{"keys":[null]}'),
    ("bytes that are no UTF-8", b'{"keys":[{"key_pattern":"\xff"}]}')]))
def test_odder_file(try_with, expect, text):
    server = try_with(text)
    expect(brief(server), gocc="it starts", ours=LINE,
           topic="config file")


@pytest.mark.section("3.1")
def test_queue_of_0_is_not_set(start_with, expect, key):
    server = start_with(for_all(1, max_requests_in_queue=0))
    permit(server, key)
    with waiter(server, key) as peer:
        expect((limits_of(server, key), peer.is_silent(0.1)), gocc=((1, 400), True))


@pytest.mark.section("3.1")
def test_can_queue(start_with, expect, key):
    server = start_with(for_all(1, can_queue=False))
    permit(server, key)
    with Peer(server) as peer:
        peer.send(request("POST", f"/rate/{key}?canWait=true"))
        came = "waits" if peer.is_silent(0.5) else peer.read().status
    expect(came, gocc="waits", ours=429, topic="file zero")


@pytest.mark.section("3.3")
@pytest.mark.parametrize("field", ["max_requests_per_window", "window_millis"])
def test_negative_number_ends_gocc(try_with, expect, key, field):
    server = try_with(for_all(5, **{field: -1}))
    if not isinstance(server, str):
        try:
            permit(server, key)
        except (EOFError, ConnectionError):
            pass
        ended = settles(lambda: not server.is_running(), 5)
        server = f"ends, {server.wait()}" if ended else "runs"
    expect(server, gocc="ends, 2", ours=LINE, topic="config file")


# ---------------------------------------------------------------------------------- 3.4, the start

@pytest.mark.section("3.4")
def test_no_file(start, expect, key):
    server = start(*HOUR, "--config-file", "")
    permit(server, key)
    expect(limits_of(server, key), gocc=(100, 400))


@pytest.mark.section("3.4")
@pytest.mark.parametrize("what", ["a missing file", "a folder", "a folder with a slash",
                                  "a missing folder", "a link to nothing"])
def test_bad_path(try_start, expect, tmp_path, what):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    path = {"a missing file": "none.json", "a folder": "", "a folder with a slash": "./",
            "a missing folder": "none/limits.json", "a link to nothing": "link"}[what]
    result = try_start("--config-file", os.path.join(tmp_path, path) if path else str(tmp_path))
    came = result.brief() if isinstance(result, StartFailed) else "it starts"
    expect(came, gocc=TRACE, ours=LINE, topic="exit codes")


@pytest.mark.section("3.4")
def test_bare_name_is_in_the_current_folder(start, expect, tmp_path, key):
    (tmp_path / "limits.json").write_text(for_all(11))
    server = start(*HOUR, "--config-file", "limits.json", folder=tmp_path)
    permit(server, key)
    expect(limits_of(server, key)[0], gocc=11)
    (tmp_path / "limits.json").write_text(for_all(12))
    expect(settles(lambda: limits_of(server, key)[0] == 12, 10), gocc=True, of="changes too")


# ------------------------------------------------------------------------------------ 3.5, changes

KEYS = [f"key{number}" for number in range(12)]


@pytest.fixture
def reloading(start_with):
    """A server with a limit of 10 for all keys in its file, and a few of these keys."""
    server = start_with(for_all(10))
    for key in KEYS:
        assert permit(server, key) == 200
    return server


def until_taken_or_refused(server, taken, seconds=10):
    """Waits for a change that gocc takes, and our server refuses with a line in its log."""
    settles(lambda: taken() or any("refused" in line["message"] for line in server.log), seconds)


def all_have(server, limit):
    return lambda: all(limits_of(server, key)[0] == limit for key in KEYS)


@pytest.mark.section("3.5")
def test_change_in_place(reloading, expect, key):
    for limit in (20, 30):
        reloading.file.write_text(for_all(limit))
        expect(settles(all_have(reloading, limit), 10), gocc=True, of="live keys")
        permit(reloading, f"{key}{limit}")
        expect(limits_of(reloading, f"{key}{limit}")[0], gocc=limit, of="new keys")


@pytest.mark.section("3.5")
def test_change_written_bit_by_bit(reloading, expect):
    with reloading.file.open("w") as file:
        for byte in for_all(20):
            file.write(byte)
            file.flush()
    expect(settles(all_have(reloading, 20), 10), gocc=True)


def rename_over(path, text):
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.rename(fresh, path)


@pytest.mark.section("3.5")
def test_change_by_rename(reloading, expect):
    rename_over(reloading.file, for_all(20))
    expect(settles(all_have(reloading, 20), 10), gocc=False, ours=True, topic="reload")


@pytest.mark.section("3.5")
def test_change_by_a_swapped_link(try_start, expect, tmp_path):
    """As a ConfigMap in Kubernetes changes."""
    def publish(number):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "limits.json").write_text(for_all(number))
        (tmp_path / "..tmp").symlink_to(f"..{number}")
        os.rename(tmp_path / "..tmp", tmp_path / "..data")

    publish(10)
    (tmp_path / "limits.json").symlink_to("..data/limits.json")
    server = try_start(*HOUR, "--config-file", str(tmp_path / "limits.json"))
    for key in KEYS:
        permit(server, key)
    publish(20)
    expect(settles(all_have(server, 20), 10), gocc=False, ours=True, topic="reload")


@pytest.mark.section("3.5")
@pytest.mark.parametrize("text, gocc", by_first([('{}', 10), ('{"keys":[]}', 100)]))
def test_change_to_an_empty_list(reloading, expect, text, gocc):
    reloading.file.write_text(text)
    settles(all_have(reloading, 100), 5)
    expect(limits_of(reloading, KEYS[0])[0], gocc=gocc, ours=100, topic="reload")


@pytest.mark.section("3.5")
@pytest.mark.parametrize("text", named([
    ("no JSON", '{"keys":[{"key_pattern"'), ("a list", '[{"key_pattern":".*"}]'),
    ("a wrong type", '{"keys":[{"key_pattern":5,"max_requests_per_window":20}]}'),
    ("a fraction", '{"keys":[{"key_pattern":"key1","max_requests_per_window":20.5}]}'),
    ("nothing", ""), ("no file", None)]))
def test_bad_change_leaves_the_old_rules(reloading, expect, key, text):
    reloading.file.unlink() if text is None else reloading.file.write_text(text)
    until_taken_or_refused(reloading, lambda: False, 0.4)
    permit(reloading, key)
    expect((limits_of(reloading, KEYS[1])[0], limits_of(reloading, key)[0]), gocc=(10, 10))
    if text is not None:
        reloading.file.write_text(for_all(20))
        expect(settles(all_have(reloading, 20), 10), gocc=True, of="a good one then")


@pytest.mark.section("3.5")
@pytest.mark.parametrize("text, gocc", named([
    ("an unknown field", for_all(20, nonsense=1), 20),
    ("a bad expression before", rules({"key_pattern": "(", "key_pattern_is_regex": True},
                                      *json.loads(for_all(20))["keys"]), 20),
    ("no pattern before", rules({"max_requests_in_queue": 5}, *json.loads(for_all(20))["keys"]),
     20)]))
def test_change_that_gocc_takes(reloading, expect, text, gocc):
    reloading.file.write_text(text)
    until_taken_or_refused(reloading, all_have(reloading, 20))
    expect(limits_of(reloading, KEYS[0])[0], gocc=gocc, ours=10, topic="config file")


@pytest.mark.section("3.5")
def test_negative_limit_for_a_live_key_denies_all(reloading, expect):
    reloading.file.write_text(for_all(-1))
    until_taken_or_refused(reloading, lambda: limits_of(reloading, KEYS[0])[0] == -1)
    expect(permit(reloading, KEYS[0]), gocc=429, ours=200, topic="config file")


@pytest.mark.section("3.5")
def test_negative_queue_disables_the_queue_of_a_live_key(reloading, expect):
    reloading.file.write_text(for_all(1, max_requests_in_queue=-1))
    until_taken_or_refused(reloading, lambda: limits_of(reloading, KEYS[0])[1] == -1)
    with Peer(reloading) as peer:
        peer.send(request("POST", f"/rate/{KEYS[0]}?canWait=true&maxRequests=1"))
        came = "waits" if peer.is_silent(0.3) else peer.read().status
    expect(came, gocc=429, ours="waits", topic="config file")


@pytest.mark.section("3.5")
def test_negative_window_for_a_live_key_ends_gocc(reloading, expect):
    reloading.file.write_text(for_all(10, window_millis=-1))
    until_taken_or_refused(reloading, lambda: not reloading.is_running())
    expect("runs" if reloading.is_running() else f"ends, {reloading.wait()}", gocc="ends, 2",
           ours="runs", topic="config file")


@pytest.mark.section("3.5")
def test_counts_and_queue_survive_a_change(reloading, expect):
    key = KEYS[0]
    for _ in range(9):
        permit(reloading, key)
    with waiter(reloading, key), waiter(reloading, key):
        reloading.file.write_text(for_all(5))  # lower: no waiter is served
        assert settles(all_have(reloading, 5), 10)
        expect(counts_of(reloading, key), gocc=(10, 0, 2))


@pytest.mark.section("3.5")
def test_raised_limit_holds_at_once(reloading, expect):
    key = KEYS[0]
    for _ in range(9):
        permit(reloading, key)
    before = permit(reloading, key)
    reloading.file.write_text(for_all(11))
    assert settles(all_have(reloading, 11), 10)
    expect((before, permit(reloading, key), permit(reloading, key)), gocc=(429, 200, 429))


@pytest.mark.section("3.5")
def test_raised_limit_while_someone_waits(reloading, expect):
    key = KEYS[0]
    for _ in range(9):
        permit(reloading, key)
    with waiter(reloading, key):
        reloading.file.write_text(for_all(11))
        assert settles(all_have(reloading, 11), 10)
        settles(lambda: counts_of(reloading, key)[2] == 0, 5)
        expect(counts_of(reloading, key), gocc=(10, 0, 1), ours=(11, 0, 0), topic="queue fairness")


@pytest.mark.section("3.5")
def test_removed_entry_restores_the_flags(start_with, expect, key):
    server = start_with(for_all(10, max_requests_in_queue=5, window_millis=4_000_000))
    permit(server, key)
    server.file.write_text('{"keys":[  ]}')
    expect(settles(lambda: config_of(server, key) == (100, 400, W), 10), gocc=True)


@pytest.mark.section("3.5")
def test_queue_of_0_by_flag_is_restored(start_with, expect, key):
    """gocc never sets a live key to 0."""
    server = start_with(for_all(10, max_requests_in_queue=5), "--max-requests-in-queue", "0")
    permit(server, key)
    server.file.write_text('{"keys":[  ]}')
    assert settles(lambda: limits_of(server, key)[0] == 100, 10)
    expect(limits_of(server, key)[1], gocc=5, ours=0, topic="a queue of 0")


@pytest.mark.section("2.5")
def test_change_of_another_key_and_overrides_of_a_request(reloading, expect, key):
    permit(reloading, key, "maxRequests=5&maxRequestsInQueue=6")
    reloading.file.write_text(rules(*json.loads(for_all(10))["keys"],
                                    {"key_pattern": KEYS[0], "max_requests_per_window": 20}))
    assert settles(lambda: limits_of(reloading, KEYS[0])[0] == 20, 10)
    settles(lambda: limits_of(reloading, key) == (10, 400), 0.5)
    expect(limits_of(reloading, key), gocc=(10, 400), ours=(5, 6), topic="reload")


@pytest.mark.section("2.5")
def test_change_and_overrides_of_a_request(reloading, expect, key):
    permit(reloading, key, "maxRequests=5&maxRequestsInQueue=6")
    reloading.file.write_text(for_all(20))
    assert settles(lambda: limits_of(reloading, KEYS[0])[0] == 20, 10)
    settles(lambda: limits_of(reloading, key) == (20, 400), 5)
    expect(limits_of(reloading, key), gocc=(20, 400))


@pytest.mark.section("2.1")
def test_window_of_another_length_begins_with_the_change(start_with, expect, key):
    """Its counts continue until its end; waiters are served then, not earlier."""
    server = start_with(for_all(1))
    early = []

    def try_once(number):
        server.file.write_text(for_all(1))
        permit(server, f"{key}{number}")
        assert settles(lambda: config_of(server, f"{key}{number}")[2] == W, 10)
        with waiter(server, f"{key}{number}") as peer:
            began = time.monotonic()
            server.file.write_text(for_all(1, window_millis=500))
            counts = counts_of(server, f"{key}{number}")
            assert peer.read().status == 200
            took = time.monotonic() - began
        early.append(took < 0.48)
        return counts == (1, 0, 1) and took < 0.9
    attempts = itertools.count()
    expect(seen(lambda: try_once(next(attempts))), gocc=True, of="in time")
    expect(any(early), gocc=False, of="early")


@pytest.mark.section("2.1")
def test_change_does_not_move_a_window_of_the_same_length(start_with, expect, key):
    server = start_with(for_all(1, window_millis=600))
    numbers = itertools.count()

    def in_time():
        name = f"{key}{next(numbers)}"
        began = time.monotonic()
        permit(server, name)
        with Peer(server) as peer:
            peer.send(request("POST", f"/rate/{name}?canWait=true"))
            time.sleep(0.35)
            server.file.write_text(for_all(1, window_millis=600, max_requests_in_queue=7))
            assert peer.read().status == 200
            took = time.monotonic() - began
        changed = limits_of(server, name) == (1, 7)
        server.file.write_text(for_all(1, window_millis=600))
        return took < 0.85 and changed
    expect(seen(in_time), gocc=True)


@pytest.mark.section("2.7")
def test_change_does_not_keep_a_key_alive(try_start, expect, tmp_path, key):
    path = tmp_path / "limits.json"
    path.write_text(for_all(10))
    server = try_start("--window-millis", "200", "--config-file", str(path))
    permit(server, key)
    turns = iter(range(1_000_000))

    def gone():
        path.write_text(for_all(10 + next(turns) % 2))
        time.sleep(0.05)
        return state_of(server, key) is None
    expect(settles(gone, 5), gocc=True)


@pytest.mark.section("3.4")
def test_entries_are_logged(start_with, expect):
    server = start_with(entry(max_requests_in_queue=12))
    shown = Like(r'.*"key_pattern":"k".*"max_requests_per_window":11,"max_requests_in_queue":12.*')
    lines = [line for line in server.log
             if line.get("level") == "INFO" and shown == line["message"]]
    expect(len(lines), gocc=1)


@pytest.mark.section("3.4")
def test_missing_file_is_logged(start, expect):
    lines = [line for line in start().log if line.get("level") == "WARN" and "configFile" in line]
    expect(len(lines), gocc=1)
