"""Frames of quotas equal Cap'n Proto's byte by byte, and the client reads every answer to them.

Method: random frames and answers against pycapnp. Golden files, split points, faults and the
schema's places are tested in frames_test.py, with all other frames.
"""

import struct

import pytest
from frame_codecs import by_pycapnp, by_tool, encode, server_frame
from hypothesis import given
from hypothesis import strategies as st
from native_peer import SCHEMA

from sluicegate import _frames, _message, _quota_frames

IDS = st.integers(0, 2**64 - 1)
AMOUNTS = st.one_of(st.integers(0, 2**63 - 1), st.just(_message.UNSET_64))
REQUESTS = st.integers(0, 2**32 - 1)
ENTRIES = st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=8), min_size=1,
                   max_size=20)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def subject_columns(entries):
    names = [name for entry in entries for name in entry]
    columns = {"subjects": b"".join(names), "subjectSizes": [len(name) for name in names]}
    if any(len(entry) != 1 for entry in entries):
        columns["subjectCounts"] = [len(entry) for entry in entries]
    return columns


def drawn(data, count, **kinds):
    """Some of these columns, in the schema's order."""
    return {name: data.draw(st.lists(kind, min_size=count, max_size=count))
            for name, kind in kinds.items() if data.draw(st.booleans())}


@given(entries=ENTRIES, frame_id=IDS, kind=st.sampled_from(["reserve", "check"]), owner=TEXTS,
       data=st.data())
def test_reserve_and_check_equal_the_frames_of_pycapnp(entries, frame_id, kind, owner, data):
    count = len(entries)
    body = {"flags": data.draw(st.integers(0, 15)),
            "waitLimitMs": data.draw(st.integers(0, 3_600_000)),
            "lifetimeMs": data.draw(st.integers(0, 2**32 - 1)), **subject_columns(entries),
            **drawn(data, count, requests=REQUESTS, inputTokens=AMOUNTS, maxOutputTokens=AMOUNTS,
                    costs=AMOUNTS)}
    ids = data.draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count))
    if any(ids):
        body |= {"ids": b"".join(ids), "idSizes": [len(name) for name in ids]}
    if owner:
        body["owner"] = owner
    message = {"id": frame_id, kind: body}
    assert encode(message) == by_pycapnp(message)


@given(frame_id=IDS, reservations=st.lists(IDS, min_size=1, max_size=20), data=st.data())
def test_settle_cancel_and_extend_equal_the_frames_of_pycapnp(frame_id, reservations, data):
    flags = data.draw(st.integers(0, 31))
    used = drawn(data, len(reservations), requests=REQUESTS, inputTokens=AMOUNTS,
                 cachedInputTokens=AMOUNTS, outputTokens=AMOUNTS, costs=AMOUNTS)
    for kind, more in (("settle", used), ("cancel", {}),
                       ("extend", {"lifetimeMs": data.draw(REQUESTS)})):
        message = {"id": frame_id, kind: {"flags": flags, "reservations": reservations, **more}}
        assert encode(message) == by_pycapnp(message)


@given(entries=ENTRIES, frame_id=IDS, flags=st.integers(0, 31), wait_limit_ms=REQUESTS,
       data=st.data())
def test_record_and_consume_equal_the_frames_of_pycapnp(entries, frame_id, flags, wait_limit_ms,
                                                        data):
    used = {"flags": flags, **subject_columns(entries),
            **drawn(data, len(entries), requests=REQUESTS, inputTokens=AMOUNTS,
                    cachedInputTokens=AMOUNTS, outputTokens=AMOUNTS, costs=AMOUNTS)}
    for kind, more in (("record", {}), ("consume", {"waitLimitMs": wait_limit_ms})):
        message = {"id": frame_id, kind: {**used, **more}}
        assert encode(message) == by_pycapnp(message)


@given(frame_id=IDS, names=st.lists(st.binary(min_size=1, max_size=20), max_size=20), cursor=IDS,
       limit=REQUESTS)
def test_usage_and_reset_equal_the_frames_of_pycapnp(frame_id, names, cursor, limit):
    body = {"cursor": cursor, "limit": limit}
    if names:
        body |= subject_columns([[name] for name in names])
        assert encode({"id": frame_id, "reset": {"subject": names[0], "all": False}}) == by_pycapnp(
            {"id": frame_id, "reset": {"subject": names[0]}})
    assert encode({"id": frame_id, "usage": body}) == by_pycapnp({"id": frame_id, "usage": body})
    assert _quota_frames.encode_reset(frame_id, b"", is_all=True) == by_pycapnp(
        {"id": frame_id, "reset": {"all": True}})


def words(enum):
    return st.sampled_from(sorted(getattr(SCHEMA, enum).schema.enumerants))


LIMITS = st.fixed_dictionaries({
    "metric": words("Metric"), "kind": words("LimitKind"), "ceiling": words("Ceiling"),
    "unit": words("CalendarUnit"), "amount": IDS, "periodMs": IDS, "countCached": st.booleans()},
    optional={"name": TEXTS.filter(bool), "timeZone": TEXTS.filter(bool)})
QUOTAS = st.fixed_dictionaries({
    "limits": st.lists(LIMITS.map(lambda limit: {"name": "n"} | limit), min_size=1, max_size=5),
    "refundExpired": st.booleans(), "overtakersMax": REQUESTS},
    optional={"profile": TEXTS.filter(bool)})


def ordered(limit):
    """Puts the name first: texts are laid out in the order in which they are set."""
    return {"name": limit["name"]} | limit


@given(frame_id=IDS, subject=st.binary(min_size=1, max_size=20), quota=QUOTAS)
def test_a_quota_equals_the_frame_of_pycapnp(frame_id, subject, quota):
    quota = quota | {"limits": [ordered(limit) for limit in quota["limits"]]}
    message = {"id": frame_id, "quota": {"subject": subject, "remove": False, "quota": quota}}
    assert encode(message) == by_pycapnp(message)
    removal = {"id": frame_id, "quota": {"subject": subject, "remove": True}}
    assert encode(removal) == by_pycapnp(removal)


def test_the_capnp_tool_reads_encoded_frames():
    subjects = _quota_frames.encode_subjects([[b"{t}a", b"{t}b"], [b"c"]])
    columns = _quota_frames.ReserveColumns(
        9, 0, 60_000, input_tokens=_quota_frames.amounts([1, 2], "x"), ids=[b"", b"mine"],
        owner="me")
    message, = by_tool([_quota_frames.encode_reserve(3, subjects, columns)])
    body = message["reserve"]
    assert (body["subjectCounts"], body["inputTokens"], body["idSizes"], body["owner"]) == (
        [2, 1], ["1", "2"], [0, 4], "me")
    assert "requests" not in body and bytes(body["subjects"]) == b"{t}a{t}bc"


STATE_COLUMNS = {
    "metrics": st.integers(0, 255), "kinds": st.integers(0, 255), "ceilings": st.integers(0, 255),
    "violated": st.integers(0, 1), "amounts": IDS, "used": IDS, "reserved": IDS, "remaining": IDS,
    "periodMs": IDS, "resetMs": IDS}


def drawn_states(data, entries_count):
    names = data.draw(st.lists(st.binary(max_size=9), max_size=6 if entries_count else 0))

    def column(kind):
        return data.draw(st.lists(kind, min_size=len(names), max_size=len(names)))
    return {"entries": column(st.integers(0, max(0, entries_count - 1))),
            "subjects": column(st.integers(0, 7)), "names": b"".join(names),
            "nameSizes": [len(name) for name in names], "leftOut": data.draw(REQUESTS),
            **{name: column(kind) for name, kind in STATE_COLUMNS.items()}}, names


def check_states(read, states, names):
    assert read.names == names and read.left_out == states["leftOut"]
    for name in ("entries", "subjects", *STATE_COLUMNS):
        field = {"periodMs": "period_ms", "resetMs": "reset_ms"}.get(name, name)
        assert list(getattr(read, field)) == states[name], name


@given(count=st.integers(0, 40), agree=st.booleans(), data=st.data())
def test_quota_answers_of_pycapnp_are_read(count, agree, data):
    size = (1 if agree else count) if count else 0
    body = {"count": count, "codes": data.draw(st.binary(min_size=size, max_size=size)),
            **drawn(data, count, reservations=IDS, retryAfterMs=st.integers(-1, 2**63 - 1))}
    states, names = drawn_states(data, count)
    if data.draw(st.booleans()):
        body["limits"] = states
    answer = _frames.decode(server_frame(id=5, quotaAnswers=body))
    assert answer[:3] == (5, count, body["codes"])
    assert list(answer.reservations) == body.get("reservations", [])
    assert list(answer.retry_after_ms) == body.get("retryAfterMs", [])
    if "limits" in body:
        check_states(answer.limits, states, names)
    else:
        assert answer.limits is None


@given(rows=st.integers(0, 6), cursor=IDS, data=st.data())
def test_usage_of_pycapnp_is_read(rows, cursor, data):
    def column(kind):
        return data.draw(st.lists(kind, min_size=rows, max_size=rows))
    names, quotas = column(st.binary(min_size=1, max_size=9)), column(QUOTAS)
    states, limit_names = drawn_states(data, rows)
    body = {"names": b"".join(names), "nameSizes": [len(name) for name in names],
            "sources": column(st.integers(0, 4)), "openReservations": column(REQUESTS),
            "waiting": column(REQUESTS), "quotas": quotas, "limits": states, "cursor": cursor}
    reply = _frames.decode(server_frame(id=5, usageReply=body))
    assert (reply.names, list(reply.sources), reply.cursor) == (names, body["sources"], cursor)
    assert list(reply.open_reservations) == body["openReservations"]
    assert list(reply.waiting) == body["waiting"]
    check_states(reply.limits, states, limit_names)
    for read, quota in zip(reply.quotas, quotas, strict=True):
        message = {"id": 1, "quota": {"subject": b"s", "quota": quota | {
            "limits": [ordered(limit) for limit in quota["limits"]]}}}
        assert _quota_frames.encode_put(1, b"s", read) == by_pycapnp(message)


# ---- what is wrong -------------------------------------------------------------------------------

ONE_STATE = {"entries": [0], "subjects": [0], "names": b"tpm", "nameSizes": [3], "metrics": [3],
             "kinds": [2], "ceilings": [0], "violated": [1], "amounts": [1], "used": [1],
             "reserved": [0], "remaining": [0], "periodMs": [1], "resetMs": [1]}
ANSWER = {"count": 1, "codes": b"\7", "reservations": [0], "retryAfterMs": [5], "limits": ONE_STATE}
USAGE = {"names": b"a", "nameSizes": [1], "sources": [1], "openReservations": [0], "waiting": [0],
         "quotas": [{}]}


@pytest.mark.parametrize("fault", [
    {"codes": b"\1\1"}, {"codes": b""}, {"reservations": [1, 2]}, {"retryAfterMs": [1, 2]},
    {"limits": ONE_STATE | {"entries": [1]}}, {"limits": ONE_STATE | {"nameSizes": [4]}},
    {"limits": ONE_STATE | {"used": [1, 2]}}, {"limits": ONE_STATE | {"violated": []}}])
def test_answers_with_inconsistent_columns_are_malformed(fault):
    assert _frames.decode(server_frame(id=1, quotaAnswers=ANSWER)).length == 1
    with pytest.raises(_frames.Malformed):
        _frames.decode(server_frame(id=1, quotaAnswers=ANSWER | fault))


@pytest.mark.parametrize("fault", [
    {"nameSizes": [2]}, {"sources": [1, 1]}, {"openReservations": []}, {"waiting": [1, 2]},
    {"quotas": []}, {"limits": ONE_STATE | {"entries": [1]}}])
def test_usage_with_inconsistent_columns_is_malformed(fault):
    assert _frames.decode(server_frame(id=1, usageReply=USAGE)).names == [b"a"]
    with pytest.raises(_frames.Malformed):
        _frames.decode(server_frame(id=1, usageReply=USAGE | fault))


def test_a_list_of_structs_longer_than_its_words_is_malformed():
    frame = bytearray(server_frame(id=1, usageReply=USAGE))
    tag = struct.pack("<IHH", 1 << 2, 1, 2)  # one Quota: a word, two pointers
    at = bytes(frame).index(tag)
    frame[at:at + 4] = struct.pack("<I", 2 << 2)
    with pytest.raises(_frames.Malformed, match="list of structs"):
        _frames.decode(bytes(frame))


def test_pointers_to_the_same_bytes_make_no_more_work_than_a_large_frame():
    """A list of structs that all point to one long text."""
    count, words = 4_096, 4_096
    text = b"x" * (8 * words - 1) + b"\0"
    elements = b"".join(
        _message.U64_AT.pack(0) + _message.U64_AT.pack(0)
        + _message.U64_AT.pack(_message.Column(_message.BYTES, len(text), b"").pointer
                               | 3 * (count - 1 - n) << 2) for n in range(count))
    tag = _message.U64_AT.pack(count << 2 | 1 << 32 | 2 << 48)
    quotas = _message.Column(_message.COMPOSITE, 3 * count, tag + elements + text)
    names = _message.Column(_message.BYTES, count, b"n" * count)
    sizes = _message.Column(_message.U16, count, b"\1\0" * count)
    sources = _message.Column(_message.BYTES, count, b"\1" * count)
    numbers = _message.Column(_message.U32, count, bytes(4 * count))
    frame = _message.build(1, _quota_frames.USAGE_REPLY, bytes(8), (
        names, sizes, sources, numbers, numbers, quotas, None))
    with pytest.raises(_frames.Malformed, match="again and again"):
        _frames.decode(frame)
