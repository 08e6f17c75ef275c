"""Independently made frames to compare with the client's: golden files, pycapnp, the capnp tool."""

import json
import pathlib
import subprocess

import capnp
from native_peer import GOLDEN, ROOT, SCHEMA

from sluicegate import _frames, _quota_frames

SCHEMA_FILE = ROOT / "proto" / "sluicegate.capnp"


def golden_names(root):
    """Names of all valid golden frames of this root, without those of newer peers."""
    names = []
    for path in sorted(GOLDEN.glob("*.json")):
        values_of = json.loads(path.read_text())
        if values_of.get("root") == root and "message" in values_of and "error" not in values_of:
            names.append(path.stem)
    return names


def golden_bytes(name):
    return (GOLDEN / f"{name}.bin").read_bytes()


def golden_message(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())["message"]


def keys_of(body):
    """`keys` and `keySizes` of a message in capnp's JSON, as a list."""
    blob, keys = bytes(body.get("keys", [])), []
    for size in body.get("keySizes", []):
        keys.append(blob[:size])
        blob = blob[size:]
    assert not blob
    return keys


def columns_of(body):
    return _frames.AcquireColumns(
        body["details"], body["flags"], body["waitLimitMs"],
        *(_frames.numbers(body.get(name), name)
          for name in ("costs", "maxRequests", "maxRequestsInQueue")),
        _frames.numbers(body.get("entryFlags"), "entryFlags", "B"),
        _frames.numbers(list(map(int, body.get("windowMs", []))), "windowMs", "Q"))


def encode(message):
    """A ClientFrame in capnp's JSON, built by the client's own encoder."""
    frame_id = int(message["id"])
    kind = next(name for name in message if name != "id")
    body = message[kind]
    if kind == "hello":
        shard = body["wantedShard"]
        return _frames.encode_hello(frame_id, body.get("clientName", ""), shard - 1 if shard else
                                    None, body.get("token", ""), body["version"])
    if kind == "acquire":
        return _frames.encode_acquire(frame_id, _frames.encode_keys(keys_of(body)),
                                      columns_of(body))
    if kind == "acquireByHandle":
        return _frames.encode_acquire_by_handle(frame_id, handles_of(body), columns_of(body))
    if kind == "release":
        return _frames.encode_release(frame_id, _frames.encode_keys(keys_of(body)),
                                      _frames.numbers(body.get("costs"), "costs"))
    if kind == "withdraw":
        return _frames.encode_withdraw(frame_id, int(body["target"]), body.get("entries", []))
    if kind == "inspect":
        return _frames.encode_inspect(frame_id, bytes(body.get("key", [])), int(body["cursor"]),
                                      body["limit"])
    if kind == "intern":
        return _frames.encode_intern(frame_id, _frames.encode_keys(keys_of(body)))
    if kind == "forget":
        return _frames.encode_forget(frame_id, handles_of(body))
    if kind == "ping":
        return _frames.encode_ping(frame_id)
    if kind == "topology":
        return _frames.encode_topology(frame_id)
    return QUOTA_ENCODERS[kind](frame_id, body)


def numbers_of(body, name):
    return [int(value) for value in body[name]] if name in body else None


def cut(body, blob="subjects", sizes="subjectSizes"):
    """Splits names that lie end to end."""
    names, rest = [], bytes(body.get(blob, []))
    for size in body.get(sizes, []):
        names.append(rest[:size])
        rest = rest[size:]
    assert not rest
    return names


def subjects_of(body):
    names = iter(cut(body))
    counts = body.get("subjectCounts") or [1] * len(body.get("subjectSizes", []))
    return _quota_frames.encode_subjects([[next(names) for _ in range(n)] for n in counts])


def reserve_columns_of(body):
    def amounts(name):
        return _quota_frames.amounts(numbers_of(body, name), name)
    return _quota_frames.ReserveColumns(
        body["flags"], body["waitLimitMs"], body["lifetimeMs"],
        _quota_frames.requests(numbers_of(body, "requests")), amounts("inputTokens"),
        amounts("maxOutputTokens"), amounts("costs"),
        own_ids_of(body), body.get("owner", ""))


def own_ids_of(body):
    return cut(body, "ids", "idSizes") if "ids" in body else None


def used_of(body):
    def amounts(name):
        return _quota_frames.amounts(numbers_of(body, name), name)
    return _quota_frames.Used(
        _quota_frames.requests(numbers_of(body, "requests")), amounts("inputTokens"),
        amounts("cachedInputTokens"), amounts("outputTokens"), amounts("costs"))


def quota_of(body):
    """A Quota in capnp's JSON as the client's own value."""
    def number(enum, word):
        return getattr(SCHEMA, enum).schema.enumerants[word]
    return _quota_frames.QuotaText([
        _quota_frames.LimitText(
            limit["name"], number("Metric", limit["metric"]), number("LimitKind", limit["kind"]),
            number("Ceiling", limit["ceiling"]), number("CalendarUnit", limit["unit"]),
            int(limit["amount"]), int(limit["periodMs"]), limit.get("timeZone", ""),
            limit["countCached"])
        for limit in body.get("limits", [])], body["refundExpired"], body["overtakersMax"],
        body.get("profile", ""))


def reservations_of(body):
    return numbers_of(body, "reservations") or []


QUOTA_ENCODERS = {
    "reserve": lambda id, body: _quota_frames.encode_reserve(
        id, subjects_of(body), reserve_columns_of(body)),
    "check": lambda id, body: _quota_frames.encode_reserve(
        id, subjects_of(body), reserve_columns_of(body), _quota_frames.CHECK),
    "settle": lambda id, body: _quota_frames.encode_settle(
        id, reservations_of(body), used_of(body), body["flags"]),
    "cancel": lambda id, body: _quota_frames.encode_cancel(
        id, reservations_of(body), body["flags"]),
    "extend": lambda id, body: _quota_frames.encode_extend(
        id, reservations_of(body), body["lifetimeMs"], body["flags"]),
    "record": lambda id, body: _quota_frames.encode_record(
        id, subjects_of(body), used_of(body), body["flags"], own_ids_of(body)),
    "consume": lambda id, body: _quota_frames.encode_consume(
        id, subjects_of(body), used_of(body), body["flags"], body["waitLimitMs"],
        own_ids_of(body)),
    "usage": lambda id, body: _quota_frames.encode_usage(
        id, cut(body), int(body["cursor"]), body["limit"]),
    "quota": lambda id, body: (
        _quota_frames.encode_remove(id, bytes(body["subject"])) if body["remove"]
        else _quota_frames.encode_put(id, bytes(body["subject"]), quota_of(body["quota"]))),
    "reset": lambda id, body: _quota_frames.encode_reset(
        id, bytes(body.get("subject", [])), body["all"]),
}


def handles_of(body):
    return b"".join(handle.to_bytes(4, "little") for handle in body.get("handles", []))


def by_pycapnp(message, words=70_000):
    """The same frame by pycapnp, in one segment."""
    builder = SCHEMA.ClientFrame.new_message(num_first_segment_words=words)
    builder.from_dict(message)
    return builder.to_bytes()


def server_frame(**message):
    """A ServerFrame by pycapnp, for the client to read."""
    builder = SCHEMA.ServerFrame.new_message(num_first_segment_words=70_000)
    builder.from_dict(message)
    return builder.to_bytes()


def by_tool(frames, root="ClientFrame"):
    """The messages that the capnp tool reads from consecutive frames."""
    done = subprocess.run(
        ["capnp", "convert", "-I", str(pathlib.Path(capnp.__file__).parents[1]), "binary:json",
         str(SCHEMA_FILE), root],
        input=b"".join(frames), capture_output=True, timeout=60, check=True)
    decoder, text, messages = json.JSONDecoder(), done.stdout.decode().strip(), []
    while text:
        message, end = decoder.raw_decode(text)
        messages.append(message)
        text = text[end:].strip()
    return messages
