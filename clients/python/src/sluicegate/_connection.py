"""One connection's dialogue, without a socket: Hello, outstanding and waiting requests.

Flow:   opening() and send() give bytes to be sent; receive() takes bytes and passes the answers to
        their requests.
Shape:  docs/protocol.md: this enforces Welcome's bounds on frames, their bytes and their number.
Errors: Malformed for what a server must not send; ConnectionLost when the server ends the
        connection.
Lives:  one TCP connection, never a second one.
"""

from __future__ import annotations

from . import _frames
from ._requests import Request
from .errors import ConnectionLost, Draining, ErrorCode, Refused, Unreachable

HELLO_ID = 1


def code_of(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN


class Connection:
    def __init__(self) -> None:
        self.welcome: _frames.Welcome | None = None
        self.going_away: str | None = None  # the server's reason
        self.topology: _frames.TopologyReply | None = None  # the last one
        self.answers = 0
        self.gathered_out = 0  # outstanding GatheredAcquires
        self.gathered_quotas_out = 0  # outstanding GatheredQuotaCalls
        self._splitter = _frames.Splitter()
        self._outstanding: dict[int, Request] = {}
        self._waiting: dict[int, Request] = {}
        self._bytes_out = 0
        self._next_id = HELLO_ID + 1

    def opening(self, client_name: str, shard: int | None) -> bytes:
        return _frames.encode_hello(HELLO_ID, client_name, shard)

    def topology_question(self) -> bytes:
        """The server answers it, and reports each change: no request waits for that."""
        self._next_id += 1
        return _frames.encode_topology(self._next_id - 1)

    @property
    def takes_requests(self) -> bool:
        return self.welcome is not None and self.going_away is None

    @property
    def is_idle(self) -> bool:
        return not self._outstanding and not self._waiting

    # --- sending

    def encode(self, request: Request) -> bytes:
        return request.encode(self._next_id)

    def fits(self, size: int) -> bool:
        """Whether a frame of this size may be outstanding in addition to the others."""
        assert self.welcome is not None
        return (len(self._outstanding) < self.welcome.outstanding_frames_max
                and self._bytes_out + size <= self.welcome.outstanding_bytes_max)

    def send(self, request: Request, frame: bytes) -> None:
        """The frame that encode() made is about to be sent."""
        request.frame_id, request.size = self._next_id, len(frame)
        self._next_id += 1
        self._outstanding[request.frame_id] = request
        self._bytes_out += request.size
        if request.is_gathered:
            self.gathered_out += 1
        elif request.is_gathered_quotas:
            self.gathered_quotas_out += 1

    # --- receiving

    def receive(self, data: bytes) -> None:
        for frame in self._splitter.feed(data):
            self._take(_frames.decode(frame))

    def receive_single_verdict(self, data: bytes) -> bool:
        """receive() for the answer to one acquire, 72 bytes; False, without effect, for others."""
        if len(data) != 72 or data[4:8] != b"\x08\0\0\0" or self._splitter.is_within_a_frame:
            return False
        answer = _frames.decode(data)
        if type(answer) is not _frames.VerdictsAnswer:
            return False
        self._take_answer(answer)
        self.answers += 1
        return True

    def _take(self, answer: _frames.Answer) -> None:
        if self.welcome is None:
            self._take_welcome(answer)
        elif isinstance(answer, _frames.GrantedAnswer):
            request = self._waiting.get(answer.id)
            if request is None:
                raise _frames.Malformed("Granted for a frame that does not wait")
            if request.granted(answer):
                del self._waiting[answer.id]
        elif isinstance(answer, _frames.GoAway):
            self.going_away = answer.reason
        elif isinstance(answer, _frames.ErrorAnswer):
            self._take_error(answer)
        elif isinstance(answer, _frames.TopologyReply):
            self.topology = answer
        elif not isinstance(answer, _frames.UnknownAnswer):  # a newer server's kind: ignored
            self._take_answer(answer)
            self.answers += 1  # of a peer that speaks the protocol

    def _take_answer(self, answer: _frames.Answer) -> None:
        request = self._answered(answer.id)
        try:
            if not request.answered(answer):
                self._waiting[answer.id] = request
        except BaseException:  # Malformed, or a signal's handler raised
            self._outstanding[answer.id] = request  # not answered: end() returns it
            raise

    def _answered(self, frame_id: int) -> Request:
        request = self._outstanding.pop(frame_id, None)
        if request is None:
            raise _frames.Malformed(f"an answer to frame {frame_id}, which is not outstanding")
        self._bytes_out -= request.size
        if request.is_gathered:
            self.gathered_out -= 1
        elif request.is_gathered_quotas:
            self.gathered_quotas_out -= 1
        return request

    def _take_welcome(self, answer: _frames.Answer) -> None:
        if isinstance(answer, _frames.ErrorAnswer):
            refused = Refused(code_of(answer.code), answer.text)
            error = Draining if refused.code is ErrorCode.DRAINING else Unreachable
            raise error(f"the server refused Hello: {refused.code}: "
                        f"{answer.text}") from refused
        if isinstance(answer, _frames.GoAway):
            raise Draining(f"the server is shutting down: {answer.reason}")
        if not isinstance(answer, _frames.Welcome) or answer.id != HELLO_ID:
            raise _frames.Malformed("the first answer is no Welcome")
        if answer.version != _frames.PROTOCOL_VERSION:
            raise _frames.Malformed(f"the server speaks version {answer.version}")
        if not (answer.frame_entries_max and answer.outstanding_frames_max
                and answer.frame_bytes_max and answer.outstanding_bytes_max):
            raise _frames.Malformed("Welcome allows nothing to be sent")
        self.welcome = answer

    def _take_error(self, answer: _frames.ErrorAnswer) -> None:
        refused = Refused(code_of(answer.code), answer.text)
        if answer.id not in self._outstanding:
            raise ConnectionLost(f"the server ended the connection: "
                                 f"{refused.code}: {answer.text}") from refused
        request = self._answered(answer.id)
        if refused.code is ErrorCode.DRAINING:
            request.lost(Draining(f"the server is shutting down: {answer.text}"))
        else:
            request.failed(refused)

    def end(self) -> list[Request]:
        """Returns the requests that will get no answer, in the order sent."""
        requests = {**self._waiting, **self._outstanding}
        self._waiting.clear()
        self._outstanding.clear()
        self._bytes_out = 0
        return [requests[frame_id] for frame_id in sorted(requests)]
