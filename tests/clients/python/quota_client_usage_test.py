"""The blocking client returns usage, quotas and decisions as the server sends them.

Method: the scripted server of fake_server.py, which reads frames by pycapnp; events decide which
answers are late, reordered or missing. quota_aio_test.py tests what AsyncClient adds.
"""

import re

import pytest
from fake_server import FakeServer
from frame_codecs import server_frame
from quota_scripts import TPM, TPM_STATE, usage_reply

import sluicegate
from sluicegate import Client, Limit, Quota, QuotaCode, QuotaDenied


def test_usage_of_one_and_of_many():
    def script(peer):
        peer.welcome()
        peer.send(server_frame(id=peer.read("usage").id,
                               usageReply=usage_reply(["a"], limits=TPM_STATE)))
        second = peer.read("usage")
        peer.send(server_frame(id=second.id, usageReply=usage_reply(["b", "a"])))  # another order
        peer.send(server_frame(id=peer.read("usage").id,
                               usageReply=usage_reply(["c"], sources=[0], quotas=[{}])))
        peer.read()
        return second.subjects
    with FakeServer(script) as server, Client(server.address) as client:
        usage = client.usage("a")
        assert (usage.subject, usage.source, usage.open_reservations, usage.waiting) == (
            "a", "file", 3, 1)
        assert usage.quota == Quota((Limit("tpm", "tokens", 30_000, 60),), "refund", 2, "file")
        assert usage.limits[0].used == 29_900
        assert usage.stats == sluicegate.Stats(tpm=29_900, max_tpm=30_000)
        assert [usage.subject for usage in client.usage(["a", "b"])] == ["a", "b"]
        assert client.get_quota("c") is None
    assert server.returned == [[["a"], ["b"]]]


def test_requests_usage_of_many_in_frames_of_bounded_size():
    def script(peer):
        peer.welcome()
        sizes = []
        while (received := peer.read()) is not None:
            names = [name for name, in received.subjects]
            sizes.append(len(names))
            peer.send(server_frame(id=received.id, usageReply=usage_reply(names)))
        return sizes
    with FakeServer(script) as server, Client(server.address) as client:
        assert len(client.usage([f"s{n}" for n in range(300)])) == 300
        assert len(client.usage([f"s{n}".zfill(1_000) for n in range(100)])) == 100
        assert client.usage([]) == []
    assert server.returned == [[256, 44, 65, 35]]


def test_subjects_are_read_page_by_page():
    def script(peer):
        peer.welcome()
        cursors = []
        for _ in range(3):
            for names, cursor in ((["a", "b"], 7), (["c"], 0)):
                received = peer.read("usage")
                cursors.append(received.body["cursor"])
                peer.send(server_frame(id=received.id, usageReply=usage_reply(names, cursor)))
        peer.read()
        return cursors
    with FakeServer(script) as server, Client(server.address) as client:
        assert [usage.subject for usage in client.subjects()] == ["a", "b", "c"]
        assert client.models() == ["a", "b", "c"]
        assert client.all_stats() == dict.fromkeys("abc", sluicegate.Stats())
    assert server.returned == [[0, 7] * 3]


def test_usage_that_is_left_out_names_the_subject():
    """No name is too long, so the owner of that subject does not answer."""
    def script(peer):
        peer.welcome()
        peer.send(server_frame(id=peer.read("usage").id, usageReply=usage_reply(["a"])))
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        with pytest.raises(sluicegate.QuotaError, match="b: owner_unreachable") as raised:
            client.usage(["a", "b"])
        assert raised.value.code is sluicegate.QuotaCode.OWNER_UNREACHABLE
        assert not isinstance(raised.value, sluicegate.InvalidSubject)


def test_quotas_are_put_and_deleted_and_usage_is_reset():
    def script(peer):
        peer.welcome()
        put = peer.read("quota")
        peer.quota_answers(put, count=1)
        peer.quota_answers(peer.read("quota"), b"\x20", count=1)
        for code in (b"\1", b"\x21"):
            removal = peer.read("quota")
            assert removal.body["remove"]
            peer.quota_answers(removal, code, count=1)
        resets = [peer.read("reset")]
        peer.quota_answers(resets[0], count=1)
        resets.append(peer.read("reset"))
        peer.quota_answers(resets[1], count=1)
        peer.read()
        return put.body, [(bytes(r.body.get("subject", b"")), r.body["all"]) for r in resets]
    with FakeServer(script) as server, Client(server.address) as client:
        client.put_quota("gpt-4o", [
            Limit("tpm", "tokens", 30_000, 60), Limit("slots", "concurrency", 4),
            {"name": "month", "metric": "tokens", "amount": "block", "kind": "calendar",
             "period": "month", "time_zone": "America/Los_Angeles", "count_cached": True}],
            expired="refund", overtakers=3)
        with pytest.raises(sluicegate.InvalidQuota):
            client.put_quota("gpt-4o", Quota())
        assert client.remove_quota("gpt-4o") and not client.remove_quota("gpt-4o")
        client.reset("gpt-4o")
        client.reset_all()
    put, resets = server.returned[0]
    tpm, slots, month = put["quota"]["limits"]
    assert put["quota"]["refundExpired"] and put["quota"]["overtakersMax"] == 3
    assert (tpm["name"], tpm["metric"], tpm["kind"], tpm["amount"], tpm["periodMs"]) == (
        "tpm", "tokens", "sliding", 30_000, 60_000)
    assert (slots["metric"], slots["kind"], slots["periodMs"]) == ("concurrency", "concurrency", 0)
    assert (month["ceiling"], month["unit"], month["timeZone"], month["countCached"]) == (
        "block", "month", "America/Los_Angeles", True)
    assert resets == [(b"gpt-4o", False), (b"", True)]


CHANGES = [lambda client: client.put_quota("gpt-4o", Quota()),
           lambda client: client.remove_quota("gpt-4o"), lambda client: client.reset("gpt-4o"),
           lambda client: client.reset_all()]


@pytest.mark.parametrize("byte, code", [
    (b"\x24", QuotaCode.NOT_DURABLE), (b"\x25", QuotaCode.MEMORY_ONLY),
    (b"\xc8", QuotaCode.UNKNOWN)])
def test_changes_that_are_not_in_the_state_file_raise(byte, code):
    def script(peer):
        peer.welcome()
        for kind in ("quota", "quota", "reset", "reset"):
            peer.quota_answers(peer.read(kind), byte, count=1)
        peer.read()
    with FakeServer(script) as server, Client(server.address) as client:
        for change in CHANGES:
            with pytest.raises(sluicegate.QuotaError, match=re.escape(code.reason)) as raised:
                change(client)
            assert type(raised.value) is sluicegate.QuotaError and raised.value.code is code


# ---- by the reference's names --------------------------------------------------------------------

def test_decide_returns_codes_reasons_and_stats():
    def script(peer):
        peer.welcome()
        received = peer.read("check")
        peer.quota_answers(received, TPM, retryAfterMs=[41_000], limits=TPM_STATE)
        peer.quota_answers(peer.read("check"), b"\3")
        record = peer.read("record")
        peer.quota_answers(record)
        peer.quota_answers(peer.read("record"), b"\x19", retryAfterMs=[-1])
        peer.read()
        return received.body, record.body
    with FakeServer(script) as server, Client(server.address) as client:
        decision = client.decide("gpt-4o", 500)
        assert not decision and decision.code is QuotaCode.TPM_EXCEEDED
        assert str(decision.code) == "tpm_exceeded" and decision.retry_after == 41.0
        assert decision.stats == sluicegate.Stats(tpm=29_900, max_tpm=30_000)
        assert [limit.name for limit in decision.violated] == ["tpm"] and decision.retryable
        assert client.can_send("gpt-5", 500)
        client.record_usage("gpt-4o", 880, 312)
        with pytest.raises(QuotaDenied):
            client.record("unknown")
        negative = client.decide("gpt-4o", -1)
        assert (negative.allowed, str(negative.code), negative.reason) == (
            False, "invalid_tokens", "estimated tokens must be non-negative")
    check, record = server.returned[0]
    assert (check["flags"], check["inputTokens"], check["maxOutputTokens"]) == (4, [500], [0])
    assert (record["inputTokens"], record["outputTokens"]) == ([880], [312])
