"""Native protocol: hello, framing, and wrong frames. Method: frames of an independent builder and
the golden files, cut, joined and corrupted; /metrics shows that a wrong frame changed nothing."""

import http.client
import json
import random
import struct
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import request, totals
from native_peer import (APPROVED, DENIED, GOLDEN, INVALID_KEY, KEEP, NativePeer, acquire_frame,
                         frame_bytes, hello_frame, inspect_frame, ping_frame, release_frame,
                         withdraw_frame)

FRAME_BYTES_MAX = 262_144
FRAME_ENTRIES_MAX = 8_192


def decision_counts(server):
    """The metrics that only decisions and releases change."""
    changing = ("sluicegate_keys", "sluicegate_waiters", "sluicegate_decisions_total",
                "sluicegate_released_total")
    return {name: value for name, value in totals(server).items() if name.startswith(changing)}


# -------------------------------------------------------------------------------------- hello

def test_welcome_announces_the_limits(start_server):
    server = start_server("--max-key-bytes", "500", "--max-waiters", "777")
    with NativePeer(server) as peer:
        welcome = peer.welcome.body
        assert peer.welcome.id == 1
    assert welcome["shard"] < server.shards
    expected = {"version": 1, "shards": server.shards, "frameBytesMax": FRAME_BYTES_MAX,
                "frameEntriesMax": FRAME_ENTRIES_MAX, "outstandingFramesMax": 1_024,
                "outstandingBytesMax": 1_048_576, "waitingEntriesMax": 777,
                "handlesMax": -(-1_000_000 // server.shards),
                "keyBytesMax": 500, "features": 31}
    assert {name: welcome[name] for name in expected} == expected
    assert str(welcome["routingHash"]) == "xxh3"
    assert welcome["serverVersion"].count(".") == 2


def test_instance_differs_after_each_start(start_server):
    welcomes = [NativePeer(start_server()).welcome.body for _ in range(2)]
    assert welcomes[0]["instanceId"] != welcomes[1]["instanceId"]
    assert welcomes[0]["routingSeed"] != welcomes[1]["routingSeed"]


def test_hello_may_name_the_client_and_an_unknown_shard(server):
    for fields in [{"clientName": "test/1"}, {"clientName": "x" * 5_000},
                   {"wantedShard": server.shards + 1}, {"wantedShard": 0xFFFFFFFF},
                   {"token": "secret"}]:
        with NativePeer(server, hello=False) as peer:
            peer.send(hello_frame(17, **fields))
            welcome = peer.read("welcome")
            assert welcome.id == 17 and welcome.body["shard"] < server.shards


def test_wanted_shard_serves_the_connection(server, key):
    """Also when frames follow in the same write, or when it arrives byte by byte."""
    for shard in range(server.shards):
        hello = hello_frame(17, wantedShard=shard + 1)
        for pieces in [[hello + acquire_frame(18, [f"{key}{shard}"])],
                       [hello[i:i + 1] for i in range(len(hello))] + [
                           acquire_frame(18, [f"{key}{shard}"])]]:
            with NativePeer(server, hello=False) as peer:
                for piece in pieces:
                    peer.send(piece)
                welcome = peer.read("welcome")
                assert (welcome.id, welcome.body["shard"]) == (17, shard)
                assert peer.read("verdicts").verdicts == [APPROVED]


def test_connections_are_spread_evenly(start_server):
    server = start_server()
    peers = [NativePeer(server) for _ in range(4 * server.shards)]
    shards = [peer.welcome.body["shard"] for peer in peers]
    assert all(shards.count(shard) == 4 for shard in range(server.shards)), shards
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("data, id", [
    (acquire_frame(5, ["k"]), 5), (ping_frame(6), 6), (inspect_frame(7), 7),
    (release_frame(8, ["k"]), 8), (acquire_frame(9, ["k"], costs=[KEEP]), 9),
    (frame_bytes({"id": 10, "unset": None}), 10)])
def test_anything_before_hello_is_an_error(server, data, id):
    before = decision_counts(server)
    with NativePeer(server, hello=False) as peer:
        peer.send(data)
        peer.read_error("helloExpected", id)
        assert peer.is_at_end()
    assert decision_counts(server) == before


def test_second_hello_is_an_error(server, key):
    with NativePeer(server) as peer:
        peer.acquire([key])
        peer.send(hello_frame(77))
        assert peer.read("verdicts").verdicts == [APPROVED]  # the server answers frames before it
        peer.read_error("unexpectedHello", 77)
        assert peer.is_at_end()


@pytest.mark.parametrize("version", [0, 2, 65_535])
def test_other_version_is_an_error(server, version):
    with NativePeer(server, hello=False) as peer:
        peer.send(hello_frame(3, version=version))
        peer.read_error("unsupportedVersion", 3)
        assert peer.is_at_end()


def test_missing_hello_is_an_error(start_server):
    server = start_server("--header-timeout-millis", "1000")
    with NativePeer(server) as greeted:
        started, peers = time.monotonic(), []
        for start in [b"", hello_frame()[:20]]:
            peers.append(NativePeer(server, hello=False))
            peers[-1].send(start)
        for peer in peers:
            peer.read_error("helloTimeout", 0)
            assert time.monotonic() - started >= 0.95
            assert peer.is_at_end()
            peer.close()
        greeted.ping()  # after Hello a client may be silent


def test_half_a_frame_ends_its_connection(start_server):
    server = start_server("--header-timeout-millis", "1000")
    with NativePeer(server) as whole, NativePeer(server) as half, NativePeer(server) as trickling:
        started = time.monotonic()
        half.send(ping_frame(5)[:20])
        trickling.send(ping_frame(5)[:20])
        for byte in ping_frame(5)[20:-1]:
            trickling.send(bytes([byte]))
        for peer in [half, trickling]:
            peer.read_error("frameTimeout", 0)
            assert time.monotonic() - started >= 0.95
            assert peer.is_at_end()
        whole.ping()


def test_too_many_connections_get_an_error(start_server):
    server = start_server("--max-connections", "2")
    held = [NativePeer(server) for _ in range(2)]
    with NativePeer(server, hello=False) as peer:
        peer.send(hello_frame())
        peer.read_error("tooManyConnections", 0)
        assert peer.is_at_end()
    for peer in held:
        peer.ping()
        peer.close()


# ------------------------------------------------------------------------------------ framing

def test_frame_may_be_cut_at_every_byte(server, key):
    with NativePeer(server) as peer:
        data = acquire_frame(1_000, [key, key + "x"], maxRequests=[1_000, 1_000], details=4)
        for cut in range(1, len(data)):
            peer.send(data[:cut])
            time.sleep(0.001)
            peer.send(data[cut:])
            answer = peer.read("verdicts")
            assert answer.id == 1_000
            assert answer.verdicts == [APPROVED] * 2
            assert answer.details["remaining"] == [1_000 - cut] * 2


def test_hello_and_frames_may_come_byte_by_byte(server, key):
    with NativePeer(server, hello=False) as peer:
        for byte in hello_frame():
            peer.send(bytes([byte]))
            time.sleep(0.0005)
        peer.read("welcome")
        for byte in acquire_frame(2, [key]) + ping_frame(3):
            peer.send(bytes([byte]))
            time.sleep(0.0005)
        answers = {answer.kind: answer for answer in (peer.read(), peer.read())}
        assert sorted(answers) == ["pong", "verdicts"]  # another shard may own the key
        assert answers["verdicts"].verdicts == [APPROVED]


def test_many_frames_in_one_write(server, key):
    count = 900  # outstanding at once, within the limit of Welcome
    with NativePeer(server) as peer:
        peer.send(b"".join(acquire_frame(id, [key], maxRequests=[count], details=4)
                           for id in range(10, 10 + count)))
        answers = [peer.read("verdicts") for _ in range(count)]
    assert sorted(answer.id for answer in answers) == list(range(10, 10 + count))
    # The server decides one key's entries in the order sent, whatever the order of the answers.
    left = {answer.id: answer.details["remaining"][0] for answer in answers}
    assert [left[id] for id in sorted(left)] == list(range(count - 1, -1, -1))


def test_frames_and_partial_frames_mixed(server, key):
    """A stream of frames of all sizes, cut at random places."""
    random_source = random.Random(7)
    with NativePeer(server) as peer:
        for _ in range(20):
            sizes = [random_source.choice([0, 1, 3, 50, 400]) for _ in range(30)]
            data = b"".join(
                acquire_frame(100 + number, [f"{key}-{entry}" for entry in range(size)],
                              maxRequests=[1_000_000] * size)
                for number, size in enumerate(sizes))
            while data:
                cut = random_source.randint(1, 30_000)
                peer.send(data[:cut])
                data = data[cut:]
            answers = {answer.id: answer for answer in (peer.read("verdicts") for _ in sizes)}
            for number, size in enumerate(sizes):
                assert answers[100 + number].verdicts == [APPROVED] * size


@pytest.mark.parametrize("segment_words", [1, 14, 20])
def test_frame_of_several_segments(server, key, segment_words):
    keys = [f"{key}-{number}" for number in range(10)]
    data = acquire_frame(50, keys, costs=list(range(1, 11)), details=4,
                         segment_words=segment_words)
    segments = struct.unpack_from("<I", data)[0] + 1
    assert 1 < segments <= 8
    with NativePeer(server) as peer:
        for _ in range(2):
            peer.send(data[:len(data) // 2])
            time.sleep(0.001)
            peer.send(data[len(data) // 2:])
            assert peer.read("verdicts").verdicts == [APPROVED] * 10
        answer = peer.ask(keys, details=4)
        assert answer.details["remaining"] == [100 - 2 * cost - 1 for cost in range(1, 11)]


def test_largest_frame_is_taken_and_a_larger_one_is_not(start_server):
    server = start_server(*LONG_WINDOW, "--max-key-bytes", "65535")
    fixed = len(acquire_frame(1, [b""]))
    for extra, fits in [(0, True), (8, False)]:
        room = FRAME_BYTES_MAX + extra - fixed - 8  # the sizes' list grows to two words
        sizes = [65_528] * 3
        sizes.append(room - sum(sizes))
        data = acquire_frame(9, [b"k" * (size - number) + b"x" * number
                                 for number, size in enumerate(sizes)])
        if len(data) != FRAME_BYTES_MAX + extra:  # four sizes fill one word only
            sizes[-1] += FRAME_BYTES_MAX + extra - len(data)
            data = acquire_frame(9, [b"k" * (size - number) + b"x" * number
                                     for number, size in enumerate(sizes)])
        assert len(data) == FRAME_BYTES_MAX + extra
        with NativePeer(server) as peer:
            before = decision_counts(server)
            peer.send(data)
            if fits:
                assert peer.read("verdicts").body["count"] == 4
                peer.ping()
            else:
                peer.read_error("frameTooLarge", 0)
                assert peer.is_at_end()
                assert decision_counts(server) == before


def test_most_entries_are_taken_and_one_more_is_not(server, key):
    with NativePeer(server) as peer:
        keys = [f"{key}{number}" for number in range(FRAME_ENTRIES_MAX)]
        assert peer.ask(keys).verdicts == [APPROVED] * FRAME_ENTRIES_MAX
        before = decision_counts(server)
        peer.acquire(keys + ["x"])
        peer.read_error("tooManyEntries", peer.next_id - 1)
        peer.release(keys + ["x"])
        peer.read_error("tooManyEntries", peer.next_id - 1)
        peer.withdraw(1, range(FRAME_ENTRIES_MAX + 1))
        peer.read_error("tooManyEntries", peer.next_id - 1)
        assert decision_counts(server) == before
        peer.ping()


# --------------------------------------------------------------------------------- bad frames

BAD_FRAMES = [path.stem for path in sorted(GOLDEN.glob("*.json"))
              if path.stem.startswith(("refused_", "hostile_"))]
ENDS_CONNECTION = {"malformed", "frameTooLarge", "unexpectedHello", "helloExpected"}


def test_golden_bad_frames_are_there():
    assert len(BAD_FRAMES) > 40


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame_is_answered_by_its_error_and_changes_nothing(server, name):
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    data = (GOLDEN / f"{name}.bin").read_bytes()
    with NativePeer(server) as peer:
        peer.ping()
        before = decision_counts(server)
        peer.send(data)
        if "error" not in golden:
            assert peer.read("verdicts").id == int(golden["message"]["id"])
            return
        if name == "hostile_hello_name_of_u64":
            golden["error"] = "malformed"
        peer.read_error(golden["error"], int(golden["id"]))
        if golden["error"] in ENDS_CONNECTION:
            assert peer.is_at_end()
        else:
            peer.ping()
        assert decision_counts(server) == before


@pytest.mark.parametrize("columns, code", [
    ({"costs": [1]}, "badColumns"), ({"costs": [1, 1, 1]}, "badColumns"),
    ({"maxRequests": [1]}, "badColumns"), ({"maxRequestsInQueue": [1, 1, 1]}, "badColumns"),
    ({"entryFlags": [1]}, "badColumns"), ({"keySizes": [3, 4]}, "badColumns"),
    ({"keySizes": [3]}, "badColumns"), ({"keySizes": []}, "badColumns"),
    ({"keys": b""}, "badColumns"),
    ({"costs": [1, 1_000_000_001]}, "badCost"), ({"costs": [1_000_000_001, 1]}, "badCost"),
    ({"costs": [1, KEEP]}, "badCost"),
    ({"maxRequests": [0, 1]}, "badOverride"), ({"maxRequests": [1, KEEP - 1]}, "badOverride"),
    ({"maxRequestsInQueue": [1_000_000_001, 1]}, "badOverride"),
    ({"waitLimitMs": 3_600_001}, "badWaitLimit"), ({"flags": 4}, "badFlag"),
    ({"flags": 128}, "badFlag"), ({"details": 128}, "badFlag"), ({"entryFlags": [1, 2]}, "badFlag"),
])
def test_one_wrong_column_refuses_the_whole_frame(server, key, columns, code):
    body = {"keys": f"{key}ab".encode()[:6].ljust(6), "keySizes": [3, 3], **columns}
    with NativePeer(server) as peer:
        before = decision_counts(server)
        peer.send(frame_bytes({"id": 42, "acquire": body}))
        peer.read_error(code, 42)
        assert decision_counts(server) == before
        peer.ping()


def test_no_kind_is_unsupported(server):
    with NativePeer(server) as peer:
        peer.send(frame_bytes({"id": 42, "unset": None}))
        peer.read_error("unsupported", 42)
        peer.ping()


def test_kind_of_a_newer_protocol_is_unsupported(server):
    data = bytearray(ping_frame(42))
    place = data.index(struct.pack("<QH", 42, 9)) + 8
    data[place:place + 2] = struct.pack("<H", 500)
    with NativePeer(server) as peer:
        peer.send(data)
        peer.read_error("unsupported", 42)
        peer.ping()


def test_invalid_key_is_a_verdict_and_no_error(start_server):
    server = start_server(*LONG_WINDOW, "--max-key-bytes", "5")
    with NativePeer(server) as peer:
        answer = peer.ask(["", "12345", "123456", b"\x00\xff"], details=1)
        assert answer.verdicts == [INVALID_KEY, APPROVED, INVALID_KEY, APPROVED]
        peer.release(["", "123456"])
        peer.read("done")


def test_frame_without_entries_is_legal(server):
    with NativePeer(server) as peer:
        answer = peer.ask([], details=63)
        assert answer.body["count"] == 0
        assert answer.verdicts == []
        peer.release([])
        peer.read("done")


@pytest.mark.parametrize("data, code", [
    (b"\xff" * 64, "malformed"), (b"\xff\xff\xff\xff" + bytes(60), "malformed"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "frameTooLarge"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01" * 8, "frameTooLarge")])
@pytest.mark.parametrize("hello", [True, False])
def test_garbage_ends_the_connection(server, hello, data, code):
    before = decision_counts(server)
    with NativePeer(server, hello=hello) as peer:
        peer.send(data)
        error = peer.read("error")
        assert error.code in (code, "helloExpected")
        assert not hello or error.code == code
        assert peer.is_at_end()
    assert decision_counts(server) == before


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_http_on_this_port_is_answered_with_the_port_of_rest(server, method):
    connection = http.client.HTTPConnection("127.0.0.1", server.native_port, timeout=10)
    connection.request(method, "/healthz")
    with connection.getresponse() as answer:
        assert answer.status == 400
        assert answer.getheader("Connection") == "close"
        assert f"REST is on port {server.port}\n" in answer.read().decode()


def test_http_after_hello_is_a_frame_too_large(server):
    with NativePeer(server) as peer:
        peer.send(request("GET", "/healthz"))
        assert peer.read("error").code == "frameTooLarge"
        assert peer.is_at_end()


def test_corrupted_frames_never_harm(server):
    """Frames with random bytes; the seed is fixed. Every frame gets an answer or an end."""
    random_source = random.Random(20_261_121)
    good = acquire_frame(7, [f"spoilt{number}" for number in range(20)], costs=[1] * 20, details=63)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(random_source.randint(1, 6)):
            data[random_source.randrange(len(data))] = random_source.randrange(256)
        with NativePeer(server) as peer:
            peer.send(data)
            peer.half_close()
            while answer := peer.read():
                assert answer.kind in ("verdicts", "error", "done", "pong", "inspected", "granted")
    with NativePeer(server) as peer:
        peer.ping()


def test_error_leaves_other_frames_in_flight_alone(server, key):
    with NativePeer(server) as peer:
        peer.send(acquire_frame(10, [key], maxRequests=[2]) + acquire_frame(11, [key], costs=[KEEP])
                  + acquire_frame(12, [key]) + acquire_frame(13, [key]) + ping_frame(14))
        answers = {answer.id: answer for answer in (peer.read() for _ in range(5))}
    assert answers[10].verdicts == answers[12].verdicts == [APPROVED]
    assert answers[11].code == "badCost"
    assert answers[13].verdicts == [DENIED]
    assert answers[14].kind == "pong"


def test_withdraw_with_an_id_of_its_own_and_no_target(server):
    with NativePeer(server) as peer:
        peer.send(withdraw_frame(5, 999) + withdraw_frame(6, 5, [0, 1, 4_000_000_000]))
        assert {peer.read("done").id, peer.read("done").id} == {5, 6}
