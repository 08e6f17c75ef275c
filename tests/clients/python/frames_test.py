"""The Python client's frames equal Cap'n Proto's byte by byte, and it reads every server frame.

Method: golden files both ways, at every split point; random frames against pycapnp and the capnp
tool; the schema's layout by the tool against the client's constants; frames with random faults.
"""

import array
import json
import pathlib
import re
import struct
import subprocess

import capnp
import pytest
from frame_codecs import (SCHEMA_FILE, by_pycapnp, by_tool, encode, golden_bytes, golden_message,
                          golden_names, keys_of, server_frame)
from hypothesis import given, settings
from hypothesis import strategies as st
from native_peer import GOLDEN, SCHEMA

from sluicegate import _frames, _message, _quota_frames
from sluicegate.errors import ErrorCode
from sluicegate.verdict import DETAIL_COLUMNS, Verdict

# An empty column means the same as an absent one; the client and the tool choose differently.
EMPTY_OR_ABSENT = {"acquire_empty_costs", "acquire_by_handle_none", "reserve_none"}
# Built from another schema.
NOT_OURS = {"newer_acquire", "newer_hello", "older_acquire", "older_acquire_without_window",
            "hostile_body_null"}
# Frames between nodes, and what only their answers have.
BETWEEN_NODES = {name for name in golden_names("ClientFrame")
                 if name.startswith(("forward", "refund"))}
SERVER_FRAMES = golden_names("ServerFrame")


# ---- golden files --------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [name for name in golden_names("ClientFrame")
                                  if name not in NOT_OURS | BETWEEN_NODES
                                  and not name.startswith("segments_")])
def test_golden_frames_are_encoded_byte_by_byte(name):
    ours, golden = encode(golden_message(name)), golden_bytes(name)
    if name in EMPTY_OR_ABSENT:
        assert plain(by_tool([ours])) == plain(by_tool([golden])) and ours != golden
    else:
        assert ours == golden


def test_the_golden_key_of_mixed_characters_is_measured_in_bytes():
    body = golden_message("acquire_utf8")["acquire"]
    keys = [key.decode() for key in keys_of(body)[:2]]
    assert any(len(key) != len(key.encode()) for key in keys)
    encoded = _frames.encode_keys(keys)
    assert list(struct.unpack("<2H", encoded.sizes)) == body["keySizes"][:2]


def values_of(answer):
    """An answer as in capnp's JSON, without absent fields."""
    if isinstance(answer, _frames.VerdictsAnswer):
        return {"count": answer.length, "verdicts": list(answer.verdicts),
                "details": details(answer.details)}
    if isinstance(answer, _frames.GrantedAnswer):
        return {"entries": list(answer.entries), "verdicts": list(answer.verdicts),
                "details": details(answer.details), "codes": list(answer.codes),
                "reservations": list(answer.reservations),
                "retryAfterMs": list(answer.retry_after_ms)}
    if isinstance(answer, _frames.InternedAnswer):
        return {"handles": list(answer.handles), "verdicts": list(answer.verdicts)}
    if isinstance(answer, _frames.InspectedAnswer):
        fields = {camel(name): list(value) for name, value in answer._asdict().items()
                  if name not in ("id", "cursor", "keys")}
        return fields | {"cursor": answer.cursor, "keys": list(b"".join(answer.keys)),
                         "keySizes": [len(key) for key in answer.keys]}
    if isinstance(answer, _frames.QuotaAnswers):
        return {"count": answer.length, "codes": list(answer.codes),
                "reservations": list(answer.reservations),
                "retryAfterMs": list(answer.retry_after_ms), "limits": states(answer.limits),
                "detail": answer.detail}
    if isinstance(answer, _frames.UsageReply):
        return {"cursor": answer.cursor, **names(answer), "sources": list(answer.sources),
                "openReservations": list(answer.open_reservations),
                "waiting": list(answer.waiting), "limits": states(answer.limits),
                "quotas": [quota_values_of(quota) for quota in answer.quotas]}
    if isinstance(answer, _frames.TopologyReply):
        rows = [node._asdict() for node in answer.nodes]
        columns = {f"{camel(name)}s" if name != "shards" else name: [row[name] for row in rows]
                   for name in ("rest_port", "native_port", "shards", "routing_seed",
                                "instance_id")}
        hosts = [row["host"].encode() for row in rows]
        return columns | {"listDigest": answer.list_digest, "nodeHash": "fnv1a",
                          "ownNode": answer.own_node, "hosts": list(b"".join(hosts)),
                          "hostSizes": [len(host) for host in hosts]}
    if isinstance(answer, _frames.ErrorAnswer):
        return {"code": camel(ErrorCode(answer.code).name.lower()), "text": answer.text}
    if isinstance(answer, _frames.Welcome):
        fields = {camel(name): value for name, value in answer._asdict().items() if name != "id"}
        return fields | {"routingHash": {1: "xxh3"}[answer.routing_hash]}
    if isinstance(answer, _frames.GoAway):
        return {"reason": answer.reason}
    return {}


def names(answer):
    return {"names": list(b"".join(answer.names)),
            "nameSizes": [len(name) for name in answer.names]}


def states(limits):
    columns = {} if limits is None else limits._asdict() | {"names": []}
    return {camel(name): value if isinstance(value, int) else list(value)
            for name, value in columns.items()} | (names(limits) if limits else {})


def quota_values_of(quota):
    def word(enum, number):
        return next(word for word, value in getattr(SCHEMA, enum).schema.enumerants.items()
                    if value == number)
    return {"refundExpired": quota.refund_expired, "overtakersMax": quota.overtakers_max,
            "profile": quota.profile, "limits": [
                {"name": limit.name, "metric": word("Metric", limit.metric),
                 "kind": word("LimitKind", limit.kind), "ceiling": word("Ceiling", limit.ceiling),
                 "unit": word("CalendarUnit", limit.unit), "amount": limit.amount,
                 "periodMs": limit.period_ms, "timeZone": limit.time_zone,
                 "countCached": limit.count_cached} for limit in quota.limits]}


def details(columns):
    return {camel(name): list(column) for name, column in (columns or {}).items()}


def camel(name):
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def plain(value):
    """capnp's JSON without absent fields, and with numbers as numbers."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()
                if plain(item) not in ([], {}, "")}
    if isinstance(value, list):
        return [plain(item) for item in value]
    is_number = isinstance(value, str) and re.fullmatch(r"-?\d+", value)
    return int(value) if is_number else value


KINDS = {_frames.VerdictsAnswer: "verdicts", _frames.GrantedAnswer: "granted",
         _frames.InternedAnswer: "interned", _frames.InspectedAnswer: "inspected",
         _frames.ErrorAnswer: "error", _frames.Welcome: "welcome", _frames.GoAway: "goAway",
         _frames.DoneAnswer: "done", _frames.PongAnswer: "pong",
         _frames.QuotaAnswers: "quotaAnswers", _frames.UsageReply: "usageReply",
         _frames.TopologyReply: "topologyReply"}
NOT_READ = {"mood", "weight", "serverTime", "permits"}  # of newer peers; between nodes


def assert_equals(answer, message):
    message = dict(message)
    kind = next(name for name in message if name in KINDS.values())
    assert KINDS[type(answer)] == kind
    assert answer.id == int(message["id"])
    body = message[kind] if isinstance(message[kind], dict) else {}
    wanted = {name: value for name, value in body.items() if name not in NOT_READ}
    assert plain(values_of(answer)) == plain(wanted)


@pytest.mark.parametrize("name", SERVER_FRAMES)
def test_golden_answers_are_read(name):
    assert_equals(_frames.decode(golden_bytes(name)), golden_message(name))


def test_fast_path_and_full_reader_agree():
    for name in SERVER_FRAMES:
        frame = golden_bytes(name)
        assert _frames.decode(frame) == _frames._decode_any(frame), name


@pytest.mark.parametrize("name", SERVER_FRAMES)
def test_every_split_point_of_every_golden_frame(name):
    frame = golden_bytes(name)
    stream = frame + golden_bytes("pong") + frame
    for cut in range(len(stream) + 1):
        splitter = _frames.Splitter()
        frames = [*splitter.feed(stream[:cut]), *splitter.feed(stream[cut:])]
        assert frames == [frame, golden_bytes("pong"), frame], cut
        assert not splitter.is_within_a_frame
        if cut < len(frame):
            splitter = _frames.Splitter()
            assert list(splitter.feed(stream[:cut])) == []
            assert splitter.is_within_a_frame == (cut > 0)


def test_reassembles_a_frame_from_single_bytes():
    stream = b"".join(golden_bytes(name) for name in SERVER_FRAMES)
    splitter = _frames.Splitter()
    frames = [frame for at in range(len(stream)) for frame in splitter.feed(stream[at:at + 1])]
    assert frames == [golden_bytes(name) for name in SERVER_FRAMES]


# ---- oracles -------------------------------------------------------------------------------------

KEYS = st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
                          st.binary(max_size=40)), max_size=60)
NUMBERS = st.integers(1, 1_000_000_000)


def key_columns(keys):
    parts = [key.encode() if isinstance(key, str) else key for key in keys]
    return {"keys": b"".join(parts), "keySizes": [len(part) for part in parts]}


@given(keys=KEYS, frame_id=st.integers(0, 2**64 - 1), data=st.data())
def test_acquire_equals_the_frame_of_pycapnp(keys, frame_id, data):
    columns = {}
    for name in ("costs", "maxRequests", "maxRequestsInQueue"):
        if keys and data.draw(st.booleans()):
            columns[name] = data.draw(st.lists(NUMBERS, min_size=len(keys), max_size=len(keys)))
    if keys and data.draw(st.booleans()):
        columns["entryFlags"] = [data.draw(st.integers(0, 1)) for _ in keys]
    if keys and data.draw(st.booleans()):
        columns["windowMs"] = [data.draw(st.integers(0, 2**64 - 1)) for _ in keys]
    body = {"details": data.draw(st.integers(0, 127)), "flags": data.draw(st.integers(0, 1)),
            "waitLimitMs": data.draw(st.integers(0, 3_600_000))}
    ours = _frames.encode_acquire(frame_id, _frames.encode_keys(keys), _frames.AcquireColumns(
        body["details"], body["flags"], body["waitLimitMs"],
        *(_frames.numbers(columns.get(name), name)
          for name in ("costs", "maxRequests", "maxRequestsInQueue")),
        _frames.numbers(columns.get("entryFlags"), "entryFlags", "B"),
        _frames.numbers(columns.get("windowMs"), "windowMs", "Q")))
    assert ours == by_pycapnp({"id": frame_id, "acquire": body | key_columns(keys) | columns})


@given(keys=KEYS, frame_id=st.integers(0, 2**64 - 1))
def test_plain_frames_equal_those_of_pycapnp(keys, frame_id):
    encoded, columns = _frames.encode_keys(keys), key_columns(keys)
    assert _frames.encode_acquire(frame_id, encoded) == by_pycapnp(
        {"id": frame_id, "acquire": columns})
    assert _frames.encode_release(frame_id, encoded) == by_pycapnp(
        {"id": frame_id, "release": columns})
    assert _frames.encode_intern(frame_id, encoded) == by_pycapnp(
        {"id": frame_id, "intern": columns})


@given(handles=st.lists(st.integers(0, 2**32 - 1), max_size=50), frame_id=st.integers(0, 2**64 - 1))
def test_handle_frames_equal_those_of_pycapnp(handles, frame_id):
    data = struct.pack(f"<{len(handles)}I", *handles)
    assert _frames.encode_acquire_by_handle(frame_id, data) == by_pycapnp(
        {"id": frame_id, "acquireByHandle": {"handles": handles}})
    assert _frames.encode_forget(frame_id, data) == by_pycapnp(
        {"id": frame_id, "forget": {"handles": handles}})


@given(frame_id=st.integers(0, 2**64 - 1), number=st.integers(0, 2**64 - 1),
       entries=st.lists(st.integers(0, 8191), min_size=1, max_size=9), key=st.binary(min_size=1),
       name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_small_frames_equal_those_of_pycapnp(frame_id, number, entries, key, name):
    assert _frames.encode_withdraw(frame_id, number, entries) == by_pycapnp(
        {"id": frame_id, "withdraw": {"target": number, "entries": entries}})
    assert _frames.encode_inspect(frame_id, key, number, entries[0]) == by_pycapnp(
        {"id": frame_id, "inspect": {"key": key, "cursor": number, "limit": entries[0]}})
    assert _frames.encode_hello(frame_id, name, entries[0]) == by_pycapnp(
        {"id": frame_id, "hello": {"version": 1, "wantedShard": entries[0] + 1,
                                   "clientName": name}})
    assert _frames.encode_ping(frame_id) == by_pycapnp({"id": frame_id, "ping": None})


def test_the_capnp_tool_reads_encoded_frames():
    keys = [["user:1"], ["a", "бг", b"\xff\x00"], [f"k{n}" for n in range(3000)], []]
    frames = [_frames.encode_acquire(n, _frames.encode_keys(k)) for n, k in enumerate(keys)]
    for message, expected in zip(by_tool(frames), keys, strict=True):
        wanted = [key.encode() if isinstance(key, str) else key for key in expected]
        assert keys_of(message["acquire"]) == wanted


@given(count=st.integers(0, 300), agree=st.booleans(), columns=st.integers(0, 127), data=st.data())
def test_verdicts_of_pycapnp_are_read(count, agree, columns, data):
    raw = data.draw(st.binary(min_size=1 if agree else count, max_size=1 if agree else count))
    raw = raw if count else b""
    body = {"count": count, "verdicts": raw}
    wanted = {}
    for name, bit, letter in DETAIL_COLUMNS:
        if columns & bit and count:
            wanted[name] = [n % (1 << (32 if letter == "I" else 64)) for n in range(count)]
    if wanted:
        body["details"] = {camel(name): column for name, column in wanted.items()}
    answer = _frames.decode(server_frame(id=5, verdicts=body))
    assert answer[:3] == (5, count, raw)
    assert {name: list(column) for name, column in (answer.details or {}).items()} == wanted


# ---- the schema ----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def layout():
    """The schema as printed by the tool, with struct sizes and places of fields."""
    include = str(pathlib.Path(capnp.__file__).parents[1])
    done = subprocess.run(["capnp", "compile", "-I", include, "-ocapnp", str(SCHEMA_FILE)],
                          capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def struct_text(layout, name):
    return re.search(rf"^struct {name} .*?^}}", layout, re.DOTALL | re.MULTILINE)[0]


def size_of(layout, name):
    found = re.search(r"# (\d+) bytes, (\d+) ptrs", struct_text(layout, name))
    return int(found[1]), int(found[2])


def places_of(layout, name):
    """Field -> bits[a, b) or ptr[n], as printed by the tool."""
    return dict(re.findall(r"^\s+(\w+) @\d+ :[^;]+;\s+# (?:\(\w+[^)]*\) )?(bits\[\d+, \d+\)|"
                           r"ptr\[\d+\])", struct_text(layout, name), re.MULTILINE))


def test_struct_sizes_equal_the_schemas(layout):
    assert size_of(layout, "ClientFrame") == size_of(layout, "ServerFrame") == (16, 1)
    assert size_of(layout, "Verdicts") == (8, 2)


def test_union_tags_equal_the_schemas(layout):
    for root, names in (("ClientFrame", "hello acquire acquireByHandle release withdraw inspect "
                                        "intern forget ping reserve check settle cancel extend "
                                        "record usage quota reset consume"),
                        ("ServerFrame", "welcome verdicts granted done interned inspected pong "
                                        "error goAway quotaAnswers usageReply")):
        text = struct_text(layout, root)
        assert "union {  # tag bits [64, 80)" in text
        tags = {name: int(tag) for name, tag in
                re.findall(r"^\s+(\w+) @\d+ :.*union tag = (\d+)", text, re.MULTILINE)}
        for name in names.split():
            constant = re.sub("([A-Z])", r"_\1", name).upper()
            of_quotas = getattr(_quota_frames, constant, None)
            assert getattr(_frames, constant, of_quotas) == tags[name], name


# Places that the reader uses: (field, offset, size) of data, (field, index) of pointers.
READ = {
    "Welcome": [("version", 0, 2), ("routingHash", 2, 2), ("shard", 4, 4), ("shards", 8, 4),
                ("frameBytesMax", 12, 4), ("routingSeed", 16, 8), ("frameEntriesMax", 24, 4),
                ("outstandingFramesMax", 28, 4), ("outstandingBytesMax", 32, 4),
                ("waitingEntriesMax", 36, 4), ("handlesMax", 40, 4), ("keyBytesMax", 44, 4),
                ("instanceId", 48, 8), ("features", 56, 8), ("serverVersion", 0),
                ("restPort", 64, 2)],
    "Verdicts": [("count", 0, 4), ("verdicts", 0), ("details", 1)],
    "Granted": [("entries", 0), ("verdicts", 1), ("details", 2),
                ("reservations", 3), ("codes", 4), ("retryAfterMs", 5), ("permits", 6)],
    "Interned": [("handles", 0), ("verdicts", 1)],
    "Inspected": [("cursor", 0, 8), ("keys", 0), ("keySizes", 1), ("windowMs", 2),
                  ("maxRequests", 3), ("maxRequestsInQueue", 4), ("approved", 5), ("denied", 6),
                  ("waiting", 7), ("resetMs", 8)],
    "Error": [("code", 0, 2), ("text", 0)],
    "GoAway": [("reason", 0)],
    "Details": [("limit", 0), ("windowMs", 1), ("remaining", 2), ("resetMs", 3),
                ("retryAfterMs", 4), ("requestId", 5), ("position", 6)],
    "Acquire": [("details", 0, 1), ("flags", 1, 1), ("waitLimitMs", 4, 4), ("keys", 0),
                ("keySizes", 1), ("costs", 2), ("maxRequests", 3), ("maxRequestsInQueue", 4),
                ("entryFlags", 5), ("windowMs", 6)],
    "QuotaAnswers": [("count", 0, 4), ("codes", 0), ("reservations", 1), ("retryAfterMs", 2),
                     ("limits", 3), ("detail", 4)],
    "LimitStates": [("leftOut", 0, 4), ("entries", 0), ("subjects", 1), ("names", 2),
                    ("nameSizes", 3), ("metrics", 4), ("kinds", 5), ("ceilings", 6),
                    ("violated", 7), ("amounts", 8), ("used", 9), ("reserved", 10),
                    ("remaining", 11), ("periodMs", 12), ("resetMs", 13)],
    "TopologyReply": [("listDigest", 0, 8), ("nodeHash", 8, 2), ("ownNode", 10, 2), ("hosts", 0),
                      ("hostSizes", 1), ("restPorts", 2), ("nativePorts", 3), ("shards", 4),
                      ("routingSeeds", 5), ("instanceIds", 6)],
    "UsageReply": [("cursor", 0, 8), ("names", 0), ("nameSizes", 1), ("sources", 2),
                  ("openReservations", 3), ("waiting", 4), ("quotas", 5), ("limits", 6)],
}


@pytest.mark.parametrize("name", READ)
def test_fields_are_where_the_schema_has_them(layout, name):
    places = places_of(layout, name)
    assert places == {
        field: f"bits[{8 * place[0]}, {8 * (place[0] + place[1])})" if len(place) == 2
        else f"ptr[{place[0]}]" for field, *place in READ[name]}


def enumerants(name):
    return {re.sub("([A-Z])", r"_\1", key).upper(): value
            for key, value in getattr(SCHEMA, name).schema.enumerants.items()}


def test_verdicts_and_error_codes_equal_the_schemas():
    ours = {verdict.name: int(verdict) for verdict in Verdict}
    for made_by_the_client in ("UNKNOWN", "APPROVED_BY_POLICY", "DENIED_BY_POLICY"):
        assert ours.pop(made_by_the_client) > max(enumerants("Verdict").values())
    assert ours == enumerants("Verdict")
    codes = {code.name: int(code) for code in ErrorCode if code is not ErrorCode.UNKNOWN}
    assert codes == enumerants("ErrorCode")


def test_verdicts_and_error_codes_print_as_names():
    assert str(Verdict.APPROVED) == f"{Verdict.APPROVED}" == "approved"
    assert str(ErrorCode.BAD_COST) == f"{ErrorCode.BAD_COST}" == "bad_cost"
    assert int(Verdict.DENIED) == 2 and repr(Verdict.DENIED) == "<Verdict.DENIED: 2>"


def test_constants_equal_the_schemas():
    assert SCHEMA.protocolVersion == _frames.PROTOCOL_VERSION
    assert SCHEMA.keep == _message.UNSET_32
    assert SCHEMA.entryMayWait == SCHEMA.frameMayWait == _frames.FLAG_MAY_WAIT
    bits = {"limit": SCHEMA.detailLimit, "window_ms": SCHEMA.detailWindow,
            "remaining": SCHEMA.detailRemaining, "reset_ms": SCHEMA.detailReset,
            "retry_after_ms": SCHEMA.detailRetryAfter, "request_id": SCHEMA.detailRequestId,
            "position": SCHEMA.detailPosition}
    assert {name: bit for name, bit, _ in DETAIL_COLUMNS} == bits
    assert SCHEMA.unset == _message.UNSET_64
    for flag in ("mayWait", "connectionBound", "wantsLimits", "wantsViolated", "keepRequests"):
        constant = re.sub("([A-Z])", r"_\1", flag).upper()
        assert getattr(SCHEMA, f"quota{flag[0].upper()}{flag[1:]}") == getattr(
            _quota_frames, constant), flag


# ---- what is wrong -------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [path.stem for path in sorted(GOLDEN.glob("*.json"))
                                  if "error" in json.loads(path.read_text())])
def test_hostile_frames_are_malformed_or_read_as_another_kind(name):
    """They are made for servers, but a client must survive each of them too."""
    splitter = _frames.Splitter()
    try:
        for frame in splitter.feed(golden_bytes(name)):
            _frames.decode(frame)
    except _frames.Malformed:
        pass


@given(name=st.sampled_from(SERVER_FRAMES), data=st.data())
@settings(max_examples=2000)
def test_a_frame_with_faults_is_read_or_malformed(name, data):
    frame = bytearray(golden_bytes(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    try:
        for whole in _frames.Splitter().feed(bytes(frame)):
            _frames.decode(whole)
    except _frames.Malformed:
        pass


def test_a_frame_beyond_the_bounds_is_refused_before_it_is_stored():
    with pytest.raises(_frames.Malformed, match="bytes; at most"):
        list(_frames.Splitter().feed(struct.pack("<II", 0, _frames.FRAME_BYTES_MAX // 8)))
    with pytest.raises(_frames.Malformed, match="segments; at most 8"):
        list(_frames.Splitter().feed(struct.pack("<II", 8, 1)))
    with pytest.raises(_frames.Malformed, match="REST port"):
        list(_frames.Splitter().feed(b"HTTP/1.1 400 Bad Request"))


@pytest.mark.parametrize("verdicts, count", [(b"\1\1", 3), (b"", 2), (b"\1", 0), (b"\1" * 5, 4)])
def test_verdicts_must_be_one_or_all(verdicts, count):
    frame = server_frame(id=1, verdicts={"count": count, "verdicts": verdicts})
    with pytest.raises(_frames.Malformed, match="verdicts for"):
        _frames.decode(frame)


def test_names_keys_that_cannot_be_sent():
    with pytest.raises(ValueError, match="'broken.* no UTF-8"):
        _frames.encode_keys(["fine", "broken\ud800"])
    for long in ("long" + "x" * 65_532, b"long" + b"x" * 65_532, "lönger" + "x" * 65_530):
        with pytest.raises(ValueError, match="'l.* has 655.. bytes; at most 65535"):
            _frames.encode_keys(["fine", long])
    with pytest.raises(TypeError, match="str or bytes, not int"):
        _frames.encode_keys(["fine", 17])


def test_refuses_numbers_that_cannot_be_sent():
    with pytest.raises(ValueError, match="costs must be whole numbers from 1"):
        _frames.numbers([1, -1], "costs")
    with pytest.raises(ValueError, match="costs"):
        _frames.numbers([1, 2.5], "costs")


def test_handles_are_a_buffer_of_32_bits():
    assert _frames.handle_bytes(array.array("I", [1, 0xFFFFFFFF])) == b"\1\0\0\0\xff\xff\xff\xff"
    with pytest.raises(TypeError, match="32-bit numbers.*format 'Q' with 8 bytes"):
        _frames.handle_bytes(array.array("Q", [1]))
    with pytest.raises(TypeError):
        _frames.handle_bytes([1, 2])
