"""Native protocol: decisions. Verdicts, detail columns, overrides, release, inspection, request
ids, and clients that do not read. Method: an independent client; both dialects at once where both
matter."""

import struct
import threading
import time

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, inspect, totals
from native_peer import (ALL_DETAILS, APPROVED, DENIED, KEEP, KEEP_WINDOW, LIMIT, MAY_WAIT,
                         NEVER_FITS, NOT_ALLOWED, REMAINING, REQUEST_ID, TABLE_FULL, NativePeer,
                         acquire_frame, inspect_frame, ping_frame, release_frame)
from server_process import eventually

WINDOW_MS = 3_600_000
YEAR_MS = 365 * 24 * WINDOW_MS


def test_verdicts_are_compact_when_all_agree(server, key):
    with NativePeer(server) as peer:
        answer = peer.ask([f"{key}{number}" for number in range(100)])
        assert answer.body == {"count": 100, "verdicts": bytes([APPROVED])}
        answer = peer.ask([key, key, key], maxRequests=[2, KEEP, KEEP])
        assert answer.body == {"count": 3, "verdicts": bytes([APPROVED, APPROVED, DENIED])}
        answer = peer.ask([key])
        assert answer.body == {"count": 1, "verdicts": bytes([DENIED])}


def test_every_entry_of_a_frame_is_decided_by_itself_and_in_order(server, key):
    with NativePeer(server) as peer:
        answer = peer.ask([key, key + "b", key, key, key + "b"],
                          maxRequests=[2, 1, KEEP, KEEP, KEEP],
                          details=REMAINING)
        assert answer.verdicts == [APPROVED, APPROVED, APPROVED, DENIED, DENIED]
        assert answer.details == {"remaining": [1, 0, 0, 0, 0]}


def test_all_details(server, key):
    with NativePeer(server) as peer:
        answer = peer.ask([key, key, key + "b"], maxRequests=[1, KEEP, KEEP], details=ALL_DETAILS)
        assert answer.verdicts == [APPROVED, DENIED, APPROVED]
        details = answer.details
    assert details["limit"] == [1, 1, 100]
    assert details["windowMs"] == [WINDOW_MS] * 3
    assert details["remaining"] == [0, 0, 99]
    assert all(WINDOW_MS - 60_000 < reset <= WINDOW_MS for reset in details["resetMs"])
    assert details["retryAfterMs"][0] == details["retryAfterMs"][2] == 0
    assert details["retryAfterMs"][1] == details["resetMs"][1]
    first = details["requestId"][0]
    assert first > 0 and details["requestId"] == [first, first + 1, first + 2]


def test_sends_only_the_requested_columns(server, key):
    names = ["limit", "windowMs", "remaining", "resetMs", "retryAfterMs", "requestId", "position"]
    with NativePeer(server) as peer:
        for bits in range(1, 128):
            answer = peer.ask([key], details=bits)
            wanted = [name for bit, name in enumerate(names) if bits >> bit & 1]
            assert sorted(answer.details) == sorted(wanted), bits
            assert all(len(column) == 1 for column in answer.details.values())


def test_costs(server, key):
    with NativePeer(server) as peer:
        answer = peer.ask([key] * 5, costs=[60, 41, 40, 101, 1], details=REMAINING)
        assert answer.verdicts == [APPROVED, DENIED, APPROVED, NEVER_FITS, DENIED]
        assert answer.details["remaining"][:3] == [40, 40, 0]
        answer = peer.ask([key + "b"], costs=[1_000_000_000], maxRequests=[1_000_000_000])
        assert answer.verdicts == [APPROVED]


def test_an_entry_of_cost_0_looks(server, key):
    with NativePeer(server) as peer:
        assert peer.welcome.body["features"] & 4
        answer = peer.ask([key, key, key + "b"], costs=[40, 0, 0], details=ALL_DETAILS,
                          maxRequests=[KEEP, 1, 1], flags=MAY_WAIT)
        assert answer.verdicts == [APPROVED] * 3
        assert answer.details["remaining"] == [60, 60, 100]
        assert answer.details["resetMs"][2] == 0
        first, *others = answer.details["requestId"]
        assert first > 0 and others == [0, 0]
        full = peer.ask([key] * 2, costs=[60, 0], details=ALL_DETAILS)
        assert full.verdicts == [APPROVED] * 2
        assert full.details["retryAfterMs"] == [0, full.details["resetMs"][1]]
        assert full.details["requestId"] == [first + 1, 0]
    assert ask(server, "GET", f"/debug/{key}b").status == 404


def test_overrides_stay_with_the_key(server, key):
    with NativePeer(server) as peer:
        peer.ask([key], maxRequests=[7], maxRequestsInQueue=[3])
        answer = peer.ask([key], maxRequests=[KEEP], details=LIMIT | REMAINING)
        assert answer.details == {"limit": [7], "remaining": [5]}
    assert inspect(server, key)["Config"] == {
        "WindowMillis": WINDOW_MS, "MaxRequestsPerWindow": 7, "MaxRequestsInQueue": 3}


def test_a_window_begins_anew_only_with_another_length(server, key):
    with NativePeer(server) as peer:
        assert peer.welcome.body["features"] & 2
        peer.ask([key])
        answer = peer.ask([key, key + "b"], windowMs=[YEAR_MS, KEEP_WINDOW], details=ALL_DETAILS)
        assert answer.details["windowMs"] == [YEAR_MS, WINDOW_MS]
        assert answer.details["resetMs"][0] == YEAR_MS
        assert answer.details["remaining"] == [98, 99]
        time.sleep(0.02)
        again = peer.ask([key], windowMs=[YEAR_MS], details=ALL_DETAILS).details
        assert (again["windowMs"], again["remaining"]) == ([YEAR_MS], [97])
        assert again["resetMs"][0] < YEAR_MS
    assert inspect(server, key)["Config"]["WindowMillis"] == YEAR_MS


def test_overrides_reach_the_shards_of_their_keys(start_server, key):
    """One frame for keys of both shards, and a window that is over soon."""
    server = start_server(*LONG_WINDOW, "--shards", "2")
    keys = [f"{key}{number}" for number in range(40)]
    with NativePeer(server) as peer:
        for _ in range(2):
            answer = peer.ask(keys, maxRequests=[1] * 40, details=ALL_DETAILS,
                              windowMs=[100 + number for number in range(40)])
            assert answer.details["windowMs"] == [100 + number for number in range(40)]
            assert answer.details["limit"] == [1] * 40
        eventually(lambda: peer.ask(keys[:1]).verdicts == [APPROVED], "the next window")


def test_disabled_overrides_take_no_permits(start_server, key):
    server = start_server(*LONG_WINDOW, "--requests-can-set-rate=false",
                          "--requests-can-mod-queue=false", "--requests-can-set-window=false")
    with NativePeer(server) as peer:
        answer = peer.ask([key] * 5, maxRequests=[5, KEEP, KEEP, KEEP, KEEP],
                          maxRequestsInQueue=[KEEP, 5, KEEP, KEEP, KEEP],
                          windowMs=[KEEP_WINDOW, KEEP_WINDOW, WINDOW_MS, KEEP_WINDOW, KEEP_WINDOW],
                          details=REMAINING)
        assert answer.verdicts == [NOT_ALLOWED] * 3 + [APPROVED] * 2
        assert answer.details["remaining"][3:] == [99, 98]


def test_both_dialects_share_keys_and_permits(server, key):
    with NativePeer(server) as peer, HttpPeer(server) as http:
        assert peer.ask([key], maxRequests=[3], details=REMAINING).details["remaining"] == [2]
        assert http.ask("POST", f"/rate/{key}").rate_limit()["r"] == 1
        assert peer.ask([key], details=REMAINING).details["remaining"] == [0]
        assert http.ask("POST", f"/rate/{key}").status == 429
        peer.release([key])
        peer.read("done")
        assert http.ask("POST", f"/rate/{key}").status == 200


def test_request_ids_are_unique_across_both_dialects(server):
    """Four clients at once, two of each dialect."""
    ids, faults = [], []

    def native(name):
        with NativePeer(server) as peer:
            for _ in range(40):
                ids.extend(peer.ask([f"{name}{n}" for n in range(25)],
                                    details=REQUEST_ID).details["requestId"])

    def rest(name):
        with HttpPeer(server) as peer:
            for number in range(150):
                ids.append(int(peer.ask("POST", f"/rate/{name}{number}").body))

    def guarded(target, name):
        try:
            target(name)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=guarded, args=(target, f"ids-{number}-"))
               for number, target in enumerate([native, rest, native, rest])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert len(ids) == 2 * 40 * 25 + 2 * 150
    assert len(set(ids)) == len(ids)


def test_entries_that_do_not_show_their_id_take_none(start_server, key):
    server = start_server(*LONG_WINDOW)
    with NativePeer(server) as peer:
        assert peer.ask([key], details=REQUEST_ID).details["requestId"] == [1]
        peer.ask([key] * 50)
        assert peer.ask([key], details=REQUEST_ID).details["requestId"] == [2]


def test_full_table_is_a_verdict(start_server):
    server = start_server("--max-keys", "64", "--window-millis", "500")
    with NativePeer(server) as peer:
        verdicts = peer.ask([f"k{n}" for n in range(500)], maxRequests=[9] * 500).verdicts
        assert set(verdicts) == {APPROVED, TABLE_FULL}
        assert 64 <= verdicts.count(APPROVED) < 500
        eventually(lambda: peer.ask(["another"]).verdicts == [APPROVED], "room for other keys")


# ---------------------------------------------------------------------------- several at once

def test_several_frames_in_flight_are_all_answered(server, key):
    with NativePeer(server) as peer:
        sent = {}
        for round_number in range(20):
            for _ in range(10):
                count = (round_number * 7) % 100
                sent[peer.acquire([f"{key}{n}" for n in range(count)])] = count
            while len(sent) > 5:
                answer = peer.read("verdicts")
                assert answer.body["count"] == sent.pop(answer.id)
        while sent:
            answer = peer.read("verdicts")
            assert answer.body["count"] == sent.pop(answer.id)


def test_frames_of_one_connection_are_decided_in_the_order_sent(server, key):
    with NativePeer(server) as peer:
        peer.send(acquire_frame(10, [key], maxRequests=[1]) + acquire_frame(11, [key])
                  + release_frame(12, [key]) + acquire_frame(13, [key])
                  + inspect_frame(14, key=key.encode()) + acquire_frame(15, [key]))
        answers = {answer.id: answer for answer in (peer.read() for _ in range(6))}
    assert [answers[id].verdicts[0] for id in (10, 11, 13, 15)] == [
        APPROVED, DENIED, APPROVED, DENIED]
    assert answers[12].kind == "done"
    assert answers[14].body["approved"] == [1]


def test_id_is_free_again_after_its_answer(server, key):
    with NativePeer(server) as peer:
        for _ in range(3):
            peer.send(acquire_frame(5, [key]))
            assert peer.read("verdicts").id == 5


def test_outstanding_frames_of_one_id_are_a_harmless_error(server, key):
    with NativePeer(server) as peer:
        server.pause()
        peer.send(acquire_frame(5, [key], details=REMAINING) * 3 + ping_frame(6))
        server.resume()
        answers = [peer.read() for _ in range(4)]
        kinds = sorted(answer.kind for answer in answers)
        assert kinds == ["error", "error", "pong", "verdicts"], answers
        assert {answer.code for answer in answers if answer.kind == "error"} == {"idInUse"}
        assert peer.ask([key], details=REMAINING).details["remaining"] == [98]


def test_more_outstanding_than_allowed_is_an_error(server, key):
    """The server is stopped while the frames are sent, so that all are outstanding at once."""
    with NativePeer(server) as peer:
        server.pause()
        count = 1_100
        try:
            peer.send(b"".join(acquire_frame(100 + n, [key]) for n in range(count)))
        finally:
            server.resume()
        answered = 0
        while (answer := peer.read()).kind == "verdicts":
            answered += 1
        assert (answer.kind, answer.code) == ("error", "tooManyOutstanding")
        assert 1_024 <= answered < count
        assert answer.id == 100 + answered  # the first frame above the limit, and none behind it
        assert peer.is_at_end()
    state = inspect(server, key)
    assert state["NumApprovedThisWindow"] + state["NumDeniedThisWindow"] == answered


def test_as_much_outstanding_as_allowed_is_fine(server, key):
    with NativePeer(server) as peer:
        server.pause()
        try:
            peer.send(b"".join(acquire_frame(100 + n, [key]) for n in range(1_024)))
        finally:
            server.resume()
        assert {peer.read("verdicts").id for _ in range(1_024)} == set(range(100, 1_124))
        peer.ping()


# --------------------------------------------------------------------------- release, inspect

def test_release_frees_permits_of_the_present_window(server, key):
    with NativePeer(server) as peer:
        peer.ask([key, key + "b"], costs=[50, 100])
        id = peer.release([key, key + "b", key + "unknown", key], costs=[20, 1_000, 5, 1])
        assert peer.read("done").id == id
        assert peer.ask([key, key + "b"], details=REMAINING).details["remaining"] == [70, 99]
        peer.release([key])
        peer.read("done")
        assert peer.ask([key], details=REMAINING).details["remaining"] == [70]
    assert inspect(server, key + "unknown") is None


def test_inspect_shows_one_key(server, key):
    with NativePeer(server) as peer:
        peer.ask([key] * 4, maxRequests=[2] * 4, maxRequestsInQueue=[9] * 4)
        shown = peer.inspect(key=key.encode())
        reset = shown.pop("resetMs")
        assert shown == {"keys": key.encode(), "keySizes": [len(key)], "windowMs": [WINDOW_MS],
                         "maxRequests": [2], "maxRequestsInQueue": [9], "approved": [2],
                         "denied": [2], "waiting": [0], "cursor": 0}
        assert WINDOW_MS - 60_000 < reset[0] <= WINDOW_MS


def test_inspect_of_an_unknown_key_creates_no_key(server, key):
    with NativePeer(server) as peer:
        for _ in range(2):
            shown = peer.inspect(key=key.encode())
            assert (shown.get("keySizes", []), shown["cursor"]) == ([], 0)


def walk(peer, limit):
    """Reads all pages: every key with its approved count."""
    seen, cursor, pages = [], 0, 0
    while True:
        shown = peer.inspect(cursor=cursor, limit=limit)
        pages += 1
        sizes = shown.get("keySizes", [])
        assert len(sizes) <= min(limit or 1_024, 1_024)
        place = 0
        for size, approved in zip(sizes, shown.get("approved", []), strict=True):
            seen.append((shown["keys"][place:place + size].decode(), approved))
            place += size
        cursor = shown["cursor"]
        if cursor == 0:
            return seen, pages


def test_walk_over_all_pages_shows_each_key_once(start_server):
    server = start_server(*LONG_WINDOW)
    keys = [f"walk{number}" for number in range(5_000)]
    with NativePeer(server) as peer:
        assert walk(peer, 0) == ([], server.shards)  # a page per shard at least
        peer.ask(keys)
        for limit in [0, 100, 1_024, 100_000]:
            seen, pages = walk(peer, limit)
            assert sorted(seen) == sorted((key, 1) for key in keys), limit
            assert pages >= 5  # a page has at most 1,024 keys


def test_walk_while_the_table_grows_shows_old_keys_once(start_server):
    server = start_server(*LONG_WINDOW)
    keys = [f"old{number}" for number in range(2_000)]
    with NativePeer(server) as peer:
        peer.ask(keys)
        seen, cursor, grown = [], 0, 0
        while True:
            shown = peer.inspect(cursor=cursor, limit=100)
            place = 0
            for size in shown.get("keySizes", []):
                seen.append(shown["keys"][place:place + size].decode())
                place += size
            cursor = shown["cursor"]
            if cursor == 0:
                break
            if grown < 40:
                peer.ask([f"new{grown}-{number}" for number in range(2_000)])
                grown += 1
        assert sorted(name for name in seen if name.startswith("old")) == sorted(keys)
        assert len(set(seen)) == len(seen)


def test_pages_of_the_longest_keys_stay_within_the_bound(start_server):
    server = start_server(*LONG_WINDOW, "--max-key-bytes", "65535")
    keys = [b"%05d" % number + b"k" * 65_530 for number in range(200)]
    with NativePeer(server) as peer:
        for key in keys:
            assert peer.ask([key]).verdicts == [APPROVED]
        seen, cursor = [], None
        while cursor != 0:
            shown = peer.inspect(cursor=cursor or 0)  # the peer checks the size of each frame
            page = shown.get("keys", b"")
            seen += [page[place:place + 5] for place in range(0, len(page), 65_535)]
            cursor = shown["cursor"]
        assert sorted(seen) == [key[:5] for key in keys]


def test_ping_is_answered_in_any_number(server):
    with NativePeer(server) as peer:
        peer.send(b"".join(ping_frame(id) for id in range(1, 5_001)))
        assert sorted(peer.read("pong").id for _ in range(5_000)) == list(range(1, 5_001))


# --------------------------------------------------------------------- clients that do not read

def flood(peer, data, most_bytes):
    """Sends `data` repeatedly without reading, until the server stops reading."""
    peer.socket.settimeout(1)
    sent = 0
    try:
        while sent < most_bytes:
            sent += peer.socket.send(data[sent % len(data):])
    except TimeoutError:
        pass
    peer.socket.settimeout(30)
    assert sent < most_bytes, "the server reads without end"
    return sent


def test_client_that_never_reads_is_stopped_and_costs_no_memory(start_server):
    server = start_server(*LONG_WINDOW)
    key = b"k" * 1_000
    with NativePeer(server) as peer:
        peer.ask([key])
        peer.ping()
    before = server.resident_bytes()
    # One frame repeatedly: the bytes sent determine how many were sent whole.
    data = inspect_frame(9, key=key)
    with NativePeer(server, receive_buffer=16_384) as lazy:
        sent = flood(lazy, data * 1_000, 64 << 20)
        assert server.resident_bytes() - before < 32 << 20
        with NativePeer(server) as other:
            assert other.ask(["x"]).verdicts == [APPROVED]
        assert ask(server, "GET", "/healthz").status == 200
        # The client reads again: each whole frame that was sent has its answer.
        for _ in range(sent // len(data)):
            answer = lazy.read("inspected")
            assert (answer.id, answer.body["approved"]) == (9, [1])
        lazy.send(data[sent % len(data):])
        assert lazy.read("inspected").id == 9
        lazy.ping()


def test_half_closed_client_that_reads_late_gets_all_its_answers(start_server):
    server = start_server(*LONG_WINDOW)
    key = b"k" * 1_000
    data = inspect_frame(9, key=key)
    with NativePeer(server) as peer:
        peer.ask([key])
    with NativePeer(server, receive_buffer=16_384) as lazy:
        sent = flood(lazy, data * 1_000, 64 << 20)
        lazy.half_close()
        answers = 0
        while lazy.read() is not None:
            answers += 1
        assert answers == sent // len(data)


def test_large_answers_wait_for_a_slow_reader(server, key):
    """As much as may be outstanding, with answers far larger than the requests."""
    entries = 4_096
    frames = 20
    data = [acquire_frame(100 + number, [b"k"] * entries, details=ALL_DETAILS,
                          maxRequests=[1_000_000_000] * entries) for number in range(frames)]
    assert sum(map(len, data)) <= 1_048_576
    with NativePeer(server, receive_buffer=16_384) as lazy:
        sender = threading.Thread(target=lazy.send, args=(b"".join(data),))
        sender.start()
        with NativePeer(server) as other:
            for number in range(50):
                assert other.ask([f"{key}{number}"]).verdicts == [APPROVED]
        ids = []
        for _ in range(frames):
            answer = lazy.read("verdicts")
            assert answer.verdicts == [APPROVED] * entries
            assert len(set(answer.details["requestId"])) == entries
            ids.append(answer.id)
        sender.join()
        assert sorted(ids) == list(range(100, 100 + frames))


def test_forgets_a_client_that_disappears_without_reading(start_server):
    server = start_server(*LONG_WINDOW)
    peers = [NativePeer(server, receive_buffer=16_384) for _ in range(20)]
    for peer in peers:
        peer.send(acquire_frame(5, [b"k"] * 8_000, details=ALL_DETAILS))
        peer.send(struct.pack("<II", 0, 100))  # and a frame that never completes
    for number, peer in enumerate(peers):
        peer.reset() if number % 2 else peer.close()
    eventually(lambda: totals(server)["sluicegate_connections"] == 1, "all are gone")
    with NativePeer(server) as peer:
        assert peer.ask(["k2"]).verdicts == [APPROVED]
