"""Scripts of a server for calls about quotas (fake_server.py), and its answers."""

import time

QUEUED, TPM, EXCEEDS = b"\4", b"\7", b"\x17"
TPM_STATE = {"entries": [0], "subjects": [0], "names": b"tpm", "nameSizes": [3], "metrics": [3],
             "kinds": [2], "ceilings": [0], "violated": [1], "amounts": [30_000], "used": [29_900],
             "reserved": [900], "remaining": [100], "periodMs": [60_000], "resetMs": [41_000]}


def serve_quotas(peer):
    """Admits everything with ids from 0x0100000000000001 on; returns the requests."""
    peer.welcome()
    received, next_id = [], 0x0100_0000_0000_0001
    while (frame := peer.read()) is not None:
        received.append(frame)
        if frame.kind == "reserve":
            count = len(frame.subjects)
            peer.quota_answers(frame, count=count, reservations=list(range(next_id,
                                                                           next_id + count)))
            next_id += count
        else:
            peer.quota_answers(frame)
    return received


def grant_leases(renewed):
    """Admits everything under one id; releases the semaphore at each renewal."""
    def script(peer):
        peer.welcome()
        received = []
        while (frame := peer.read()) is not None:
            received.append(frame)
            peer.quota_answers(frame, **({"reservations": [5]} if frame.kind == "reserve" else {}))
            if frame.kind == "extend":
                renewed.release()
        return received
    return script


def answer_late(delay):
    """Admits everything under one id, each call this many seconds after it came."""
    def script(peer):
        peer.welcome()
        while (frame := peer.read()) is not None:
            time.sleep(delay)
            peer.quota_answers(frame, **({"reservations": [5]} if frame.kind == "reserve" else {}))
    return script


def kinds(frames):
    return [frame.kind for frame in frames]


def amounts(frame):
    """What a settle or a cancel has beside flags and the reservation."""
    return {name: value for name, value in frame.body.items()
            if name not in ("flags", "reservations") and value}


def lose(kind, after_ping=False):
    """Drops the connection at a request of this kind; after a Ping the client retries at once."""
    def script(peer):
        peer.welcome()
        if after_ping:
            peer.pong()
        peer.read(kind)
    return script


def usage_reply(names, cursor=0, **changed):
    count = len(names)
    return {"names": "".join(names).encode(), "nameSizes": [len(name) for name in names],
            "sources": [2] * count, "openReservations": [3] * count, "waiting": [1] * count,
            "quotas": [{"limits": [{"name": "tpm", "metric": "tokens", "kind": "sliding",
                                    "amount": 30_000, "periodMs": 60_000}],
                        "refundExpired": True, "overtakersMax": 2}] * count,
            "cursor": cursor} | changed
