"""A signal handler that raises during a call of the blocking client harms no other call.

Method: an exception at every line of the functions that send and receive, with a scripted server.
"""

import socket
import sys

import pytest
from fake_server import WELCOME, FakeServer
from frame_codecs import server_frame
from server_process import TIMEOUT_S

from sluicegate import Client, Verdict


class Interruption(BaseException):
    """Stands for an exception of a signal handler."""


def interrupt_at(name, line):
    """Raises once, when this line of a function of the client begins."""
    code = getattr(Client, name).__code__

    def trace(frame, event, _):
        if frame.f_code is not code:
            return trace if event == "call" else None
        if event == "line" and frame.f_lineno == line:
            sys.settrace(None)
            raise Interruption
        return trace
    sys.settrace(trace)


def lines_of(name):
    """The executable lines, without the first: a `try` before any effect."""
    lines = {line for _, _, line in getattr(Client, name).__code__.co_lines() if line is not None}
    return [(name, line) for line in sorted(lines)[1:]]


@pytest.mark.parametrize("name, line", [
    *lines_of("_acquire_directly"), *lines_of("_send_directly"), *lines_of("_take_direct_answer"),
    *lines_of("_receive"), *lines_of("_take"), *lines_of("_submit"), *lines_of("_send")])
def test_an_interrupted_call_does_not_end_other_calls(name, line):
    """At every line of sending and receiving: the next call gets its answer."""
    def script(peer):
        hello = peer.read()
        if hello is not None:
            peer.send(server_frame(id=hello.id, welcome=WELCOME))
            peer.approve_all()
    with FakeServer(script, script) as server:
        try:
            with Client(server.address, backoff=(0, 0)) as client:
                client.ping()
                for call in (lambda: client.acquire("a"), lambda: client.acquire_many(["b"])):
                    interrupt_at(name, line)
                    try:
                        call()
                    except Interruption:
                        break
                    finally:
                        sys.settrace(None)
                assert client.acquire("c", timeout=TIMEOUT_S) is Verdict.APPROVED
                assert client.acquire_many(["c"], timeout=TIMEOUT_S).all_approved
                assert client._leader is None and not client._dispatcher.pending
        finally:
            socket.create_connection(server.address.split(":")).close()  # if no client came


@pytest.mark.parametrize("many", [False, True])
def test_withdraws_an_interrupted_wait(many, monkeypatch):
    def script(peer):
        peer.welcome()
        waits = peer.read("acquire")
        peer.verdicts(waits, b"\3")
        withdraw = peer.read("withdraw")
        assert withdraw.body["target"] == waits.id and list(withdraw.body["entries"]) == [0]
        peer.granted(waits, [0], b"\x0b")
        peer.done(withdraw)
        peer.approve_all()

    def lead_until_in_queue(client, deadline, is_over):
        lead(client, deadline, lambda: is_over() or client._dispatcher.connection
             and client._dispatcher.connection._waiting)
        if client._dispatcher.connection._waiting:
            raise Interruption
    lead = Client._lead
    with FakeServer(script) as server, Client(server.address) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Client, "_lead", lead_until_in_queue)
            with pytest.raises(Interruption):
                client.acquire_many(["w"], wait=True) if many else client.acquire("w", wait=True)
        client.ping()
        assert not client._dispatcher.waiting_entries and not client._dispatcher.pending
