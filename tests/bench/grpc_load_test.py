"""The gRPC load writes and reads the bytes that HTTP/2 and Protocol Buffers want.

Method: bytes counted by hand, and a server of a few lines that answers one call.
"""

import pathlib
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from suite import grpc_load as load  # noqa: E402  (after the path)

APPROVED = b"\x10\x05\x18\x04"  # limit, remaining; a status of 0 is left out
DENIED = b"\x08\x01\x10\x05"
FAILED = b"\x2a\x03bad"


def message(*responses):
    body = b"".join(b"\x0a" + bytes([len(one)]) + one for one in responses)
    return b"\0" + len(body).to_bytes(4, "big") + body


def test_numbers_are_read_as_they_were_written():
    for value in (0, 1, 127, 128, 300, 1_000_000_000):
        assert load.read_varint(b"x" + load.varint(value), 1) == (value, 1 + len(
            load.varint(value)))
    assert load.varint(300) == b"\xac\x02"


def test_a_check_names_key_hit_limit_and_duration():
    assert load.check(b"k") == (b"\x0a\x05bench\x12\x01k\x18\x01\x20\x80\x94\xeb\xdc\x03"
                                b"\x28\x80\xdd\xdb\x01")


def test_call_has_its_length_prefix():
    call = load.call([b"a", b"b"])
    assert call[0] == 0
    assert int.from_bytes(call[1:5], "big") == len(call) - 5
    assert call.count(b"bench") == 2


def test_verdicts_are_counted_one_by_one():
    assert load.verdicts(message(APPROVED, DENIED, APPROVED, FAILED, b"")) == (2, 1, 2)
    assert load.verdicts(b"") == (0, 0, 0)


class OneCall:
    """Answers the first call on its first connection, with everything in between."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer = answer
        self.received = b""
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        peer, _ = self.listener.accept()
        peer.settimeout(5)
        peer.sendall(load.frame(load.SETTINGS, 0, 0, b"")
                     + load.frame(load.PING, 0, 0, b"12345678")
                     + load.frame(load.WINDOW_UPDATE, 0, 0, (100_000).to_bytes(4, "big"))
                     + load.frame(load.HEADERS, load.END_HEADERS, 1, b"")
                     + load.frame(load.DATA, 0, 1, self.answer[:3])
                     + load.frame(load.DATA, 0, 1, self.answer[3:])
                     + load.frame(load.HEADERS, load.END_HEADERS | load.END_STREAM, 1, b""))
        while True:
            got = peer.recv(1 << 16)
            self.received += got
            if not got:
                return


def test_an_answer_in_pieces_is_put_together():
    answer = message(APPROVED, DENIED)
    server = OneCall(answer)
    connection = load.Connection(server.port)
    question = load.call([b"user-%010d" % number for number in range(1000)])
    # Longer than the first frames may be, so it goes in several.
    assert connection.ask(question) == answer
    connection.socket.close()
    server.thread.join(timeout=5)
    server.listener.close()
    assert server.received.startswith(load.PREFACE)
    assert load.frame(load.PING, load.ACK, 0, b"12345678") in server.received
    assert load.frame(load.DATA, 0, 1, question[:load.FRAME_BYTES_MAX]) in server.received
    assert connection.window == load.WINDOW_BYTES + 100_000 - len(question)
