"""The book of settles that no server has taken: what is repeated, as what, and for how long.

Method: the book alone, with times of the test and answers by hand.
"""

from array import array

import pytest

from sluicegate import (ConnectionLost, ErrorCode, Overloaded, QuotaCode, QuotaResults, Refused,
                        TimedOut, Unreachable)
from sluicegate._kept_settles import KeptSettle, KeptSettles, SettleCounts, calls_of, record_of
from sluicegate._message import UNSET_64
from sluicegate._quota_frames import RECORD, SETTLE
from sluicegate._quota_requests import RecordEntry, ReserveEntry, SettleEntry

RESERVED = ReserveEntry((b"m", b"acme"), 2, 900, 500, 7)


START, NEXT_START = 7, 8  # of the server


def settle(reservation, end=100.0, forgettable=True, **state):
    entry = SettleEntry(reservation, input_tokens=880, output_tokens=312)
    record = record_of(entry, RESERVED, b"id %d" % reservation) if forgettable else None
    return KeptSettle(entry, record, end, START, **state)


def answered(book, calls, *codes, now=0.0, start=NEXT_START):
    book.answered(calls, results(*codes), now, lambda reservation: start)


def failed(book, error, now=0.0):
    book.failed(book.next_calls(now), error, now, lambda reservation: START)


def lines(book):
    return [text for _, text in book.take_lines()]


def results(*codes):
    count = len(codes)
    return QuotaResults(bytes(codes), array("Q", bytes(8 * count)), array("q", bytes(8 * count)))


@pytest.fixture
def book():
    return KeptSettles(most=3, backoff=(1.0, 8.0))


def test_a_settle_that_a_server_takes_later_is_settled_once(book):
    assert book.keep(settle(1)) and book.keep(settle(2)) and book.counts == SettleCounts(kept=2)
    calls = book.next_calls(0.0)
    terms, entries = calls_of(calls)
    assert terms.kind == SETTLE and [entry.reservation for entry in entries] == [1, 2]
    answered(book, calls, QuotaCode.OK, QuotaCode.ALREADY_SETTLED)
    assert book.counts == SettleCounts(settled=2) and book.next_calls(0.0) == []
    assert lines(book) == []


def test_what_the_server_has_forgotten_is_recorded(book):
    assert book.keep(settle(1)) and book.keep(settle(2))
    calls = book.next_calls(0.0)
    answered(book, calls, QuotaCode.UNKNOWN_RESERVATION, QuotaCode.OK)
    assert book.counts == SettleCounts(kept=1, settled=1)
    calls = book.next_calls(0.0)
    terms, entries = calls_of(calls)
    assert terms.kind == RECORD
    assert entries == [RecordEntry((b"m", b"acme"), 2, 880, 0, 312, 7, b"id 1")]
    answered(book, calls, QuotaCode.UNKNOWN_SUBJECT_ALLOWED)
    assert book.counts == SettleCounts(settled=1, recorded=1)


def test_without_its_subjects_a_forgotten_settle_is_lost(book):
    assert book.keep(settle(0xAB, forgettable=False))
    answered(book, book.next_calls(0.0), QuotaCode.UNKNOWN_RESERVATION)
    assert book.counts == SettleCounts(lost=1)
    assert lines(book) == [
        "settles lost: 1 (unknown_reservation: no reservation has this id, or it ended and is "
        "forgotten): reservation 00000000000000ab"]
    assert lines(book) == []


@pytest.mark.parametrize("code", [QuotaCode.ALREADY_CANCELLED, QuotaCode.ALREADY_EXPIRED])
def test_what_ended_otherwise_is_lost(book, code):
    assert book.keep(settle(1))
    answered(book, book.next_calls(0.0), code)
    assert book.counts == SettleCounts(lost=1) and str(code) in lines(book)[0]


@pytest.mark.parametrize("code", [QuotaCode.ID_IN_USE, QuotaCode.UNKNOWN_SUBJECT])
def test_a_record_that_is_refused_is_lost(book, code):
    assert book.keep(settle(1, is_forgotten=True))
    answered(book, book.next_calls(0.0), code)
    assert book.counts == SettleCounts(lost=1) and str(code) in lines(book)[0]


def test_it_pauses_longer_after_each_failure_and_not_at_all_after_success(book):
    assert book.keep(settle(1)) and book.pause(0.0) == 0.0
    for longest in (1.0, 2.0, 4.0, 8.0, 8.0):
        failed(book, Unreachable("away"))
        assert longest / 2 <= book.pause(0.0) <= longest
    answered(book, book.next_calls(9.0), QuotaCode.OWNER_UNREACHABLE, now=9.0)
    assert 4.0 <= book.pause(9.0) <= 8.0 and book.counts == SettleCounts(kept=1)
    answered(book, book.next_calls(18.0), QuotaCode.OK, now=18.0)
    assert book.pause(18.0) == 0.0 and book.counts == SettleCounts(settled=1)


def test_an_answer_that_does_not_come_has_more_time_the_next_time(book):
    assert book.keep(settle(1))
    times = []
    for _ in range(7):
        times.append(book.attempt_s)
        failed(book, TimedOut("no answer"))
    assert times == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    answered(book, book.next_calls(0.0), QuotaCode.OWNER_UNREACHABLE)
    assert book.attempt_s == 1.0


def test_an_attempt_that_failed_halfway_keeps_what_had_no_answer(book):
    for number in (1, 2, 3):
        assert book.keep(settle(number))
    error = Unreachable("away")
    error.partial = results(QuotaCode.OK, QuotaCode.NONE, QuotaCode.NONE)
    failed(book, error)
    assert book.counts == SettleCounts(kept=2, settled=1)
    assert [kept.entry.reservation for kept in book.next_calls(0.0)] == [2, 3]


def test_a_lifetime_that_ends_ends_the_repeats_but_not_the_first_attempt(book):
    assert book.keep(settle(1, end=10.0)) and book.keep(settle(2, end=20.0))
    assert len(book.next_calls(12.0)) == 2
    assert [kept.entry.reservation for kept in book.next_calls(12.0)] == [2]
    assert book.counts == SettleCounts(kept=1, lost=1)
    assert lines(book) == [
        "settles lost: 1 (no server took them before the end of the lifetime): "
        "reservation 0000000000000001"]


def test_an_answer_to_a_settle_whose_lifetime_has_ended_meanwhile_changes_nothing(book):
    assert book.keep(settle(1, end=10.0))
    calls = book.next_calls(9.0)
    assert book.next_calls(11.0) == []
    answered(book, calls, QuotaCode.OK, now=11.0)
    assert book.counts == SettleCounts(lost=1)


def test_it_refuses_more_than_its_bound_but_not_a_repeat(book):
    for number in (1, 2, 3):
        assert book.keep(settle(number))
    assert not book.keep(settle(4))
    other = SettleEntry(1, input_tokens=1)
    assert book.keep(KeptSettle(other, None, 100.0))
    assert book.counts == SettleCounts(kept=3)
    assert book.next_calls(0.0)[0].entry.input_tokens == 880  # the first one, as in the server


def test_a_repeat_that_learnt_of_a_forgotten_reservation_makes_it_a_record(book):
    assert book.keep(settle(1)) and book.keep(settle(1, is_forgotten=True))
    assert calls_of(book.next_calls(0.0))[0].kind == RECORD


def test_settles_without_a_reservation_are_apart_by_their_ids(book):
    for id in (b"a", b"b"):
        entry = SettleEntry(0, output_tokens=1)
        assert book.keep(KeptSettle(
                entry, record_of(entry, RESERVED, id), 100.0, is_forgotten=True))
    assert [entry.id for entry in calls_of(book.next_calls(0.0))[1]] == [b"a", b"b"]


def test_a_frame_has_as_many_as_the_server_takes():
    book = KeptSettles(most=3_000, backoff=(1.0, 8.0))
    for number in range(1, 3_001):
        assert book.keep(settle(number))
    calls = book.next_calls(0.0)
    assert len(calls) == 2_048
    answered(book, calls, *[QuotaCode.OK] * 2_048)
    assert len(book.next_calls(0.0)) == 952


def test_a_settle_that_no_server_takes_does_not_keep_others_from_being_taken():
    book = KeptSettles(most=10, backoff=(1.0, 8.0))
    for number in range(1, 9):
        assert book.keep(settle(number))
    taken = []
    while calls := book.next_calls(0.0):
        numbers = [kept.entry.reservation for kept in calls]
        if 3 in numbers:
            book.failed(calls, Refused(ErrorCode.BAD_AMOUNT, "too much"), 0.0, lambda _: START)
        else:
            taken += numbers
            answered(book, calls, *[QuotaCode.OK] * len(calls))
    assert sorted(taken) == [1, 2, 4, 5, 6, 7, 8] and book.pause(0.0) == 0.0
    assert book.counts == SettleCounts(settled=7, lost=1)
    assert "bad_amount: too much): reservation 0000000000000003" in lines(book)[0]


def test_giving_up_names_some_of_the_lost_ones():
    book = KeptSettles(most=100, backoff=(1.0, 8.0))
    for number in range(1, 11):
        assert book.keep(settle(number))
    book.give_up()
    line, = lines(book)
    assert line.startswith("settles lost: 10 (the client was closed before a server took them)")
    assert line.endswith("reservation 0000000000000008 and 2 more")
    assert book.counts == SettleCounts(lost=10)


def test_a_record_has_what_was_reserved_where_the_settle_gives_nothing():
    nothing = SettleEntry(1)
    assert record_of(nothing, RESERVED, b"i") == RecordEntry(
        (b"m", b"acme"), 2, 900, 0, 500, 7, b"i")
    by_default = RESERVED._replace(max_output_tokens=UNSET_64)  # which only the server knows
    assert record_of(nothing, by_default, b"i").output_tokens == 0
    used = SettleEntry(1, 1, 10, 4, 20, 30)
    assert record_of(used, RESERVED, b"i") == RecordEntry((b"m", b"acme"), 1, 10, 4, 20, 30, b"i")


# ---- the server has forgotten the reservation ----------------------------------------------------

@pytest.mark.parametrize("was_sent, counts", [(True, SettleCounts(settled=1)),
                                              (False, SettleCounts(lost=1))])
def test_a_server_that_was_not_restarted_has_charged_what_it_has_forgotten(book, was_sent, counts):
    """As a settle whose answer was lost, or as it was reserved: a record would charge it again."""
    assert book.keep(settle(1, was_sent=was_sent))
    answered(book, book.next_calls(0.0), QuotaCode.UNKNOWN_RESERVATION, start=START)
    assert book.counts == counts and book.next_calls(0.0) == []


@pytest.mark.parametrize("before, now", [(None, START), (START, None), (None, None)])
def test_of_a_server_whose_start_is_unknown_it_is_recorded(book, before, now):
    kept = settle(1, was_sent=True)
    kept.server_start = before
    assert book.keep(kept)
    answered(book, book.next_calls(0.0), QuotaCode.UNKNOWN_RESERVATION, start=now)
    assert calls_of(book.next_calls(0.0))[0].kind == RECORD


@pytest.mark.parametrize("error, was_sent", [
    (Unreachable("away"), False), (Overloaded("full"), False), (ConnectionLost("cut"), True),
    (TimedOut("late"), True)])
def test_an_attempt_may_have_reached_a_server_unless_it_was_not_sent(book, error, was_sent):
    assert book.keep(settle(1))
    failed(book, error)
    assert book.next_calls(100.0) == [] or book.next_calls(0.0)[0].was_sent is was_sent


# ---- none holds up another -----------------------------------------------------------------------

def test_settles_that_a_node_does_not_take_hold_up_no_others():
    book = KeptSettles(most=10_000, backoff=(1.0, 8.0))
    for number in range(1, 5_001):
        assert book.keep(settle(number))
    taken = set()
    for _ in range(3):
        calls = book.next_calls(0.0)
        numbers = [kept.entry.reservation for kept in calls]
        taken |= {number for number in numbers if number > 3_000}
        answered(book, calls, *[QuotaCode.OWNER_UNREACHABLE if number <= 3_000 else QuotaCode.OK
                                for number in numbers])
    assert taken == set(range(3_001, 5_001)) and book.counts == SettleCounts(3_000, 2_000)


def test_records_and_settles_alternate(book):
    assert book.keep(settle(1)) and book.keep(settle(2, is_forgotten=True))
    kinds = []
    for _ in range(4):
        calls = book.next_calls(0.0)
        kinds.append(calls_of(calls)[0].kind)
        answered(book, calls, QuotaCode.OWNER_UNREACHABLE)
    assert kinds == [SETTLE, RECORD, SETTLE, RECORD]


def test_a_settle_by_the_plain_id_learns_its_record_from_a_later_one(book):
    assert book.keep(settle(1, forgettable=False)) and book.keep(settle(1))
    answered(book, book.next_calls(0.0), QuotaCode.UNKNOWN_RESERVATION)
    assert calls_of(book.next_calls(0.0))[0].kind == RECORD


def test_repeats_pause_also_without_a_backoff():
    book = KeptSettles(most=3, backoff=(0.0, 0.0))
    assert book.keep(settle(1))
    failed(book, Unreachable("away"))
    assert book.pause(0.0) == 0.01


# ---- the log -------------------------------------------------------------------------------------

def test_the_first_failure_is_a_line_until_nothing_is_kept(book):
    for _ in range(2):
        assert book.keep(settle(1)) and book.keep(settle(2))
        for _ in range(3):
            failed(book, Unreachable("away"))
        assert lines(book) == ["the settle of reservation 0000000000000001, and those that follow, "
                               "are repeated until a server takes them: away"]
        answered(book, book.next_calls(0.0), QuotaCode.OK, QuotaCode.OK)
    assert lines(book) == []


def test_one_that_could_not_be_kept_is_counted(book):
    book.lose("a block's", "no room")
    assert book.counts == SettleCounts(lost=1)
    assert lines(book) == ["settles lost: 1 (no room): a block's"]


def test_a_record_has_no_more_cached_tokens_than_input():
    entry = SettleEntry(1, cached_input_tokens=50, output_tokens=1)
    assert record_of(entry, RESERVED._replace(input_tokens=10), b"i").cached_input_tokens == 10
