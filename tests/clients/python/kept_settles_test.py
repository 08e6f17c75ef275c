"""The book of settles that no server has taken: what is repeated, as what, and for how long.

Method: the book alone, with times of the test and answers by hand.
"""

from array import array

import pytest

from sluicegate import ErrorCode, QuotaCode, QuotaResults, Refused, TimedOut, Unreachable
from sluicegate._kept_settles import KeptSettle, KeptSettles, SettleCounts, calls_of, record_of
from sluicegate._message import UNSET_64
from sluicegate._quota_frames import RECORD, SETTLE
from sluicegate._quota_requests import RecordEntry, ReserveEntry, SettleEntry

RESERVED = ReserveEntry((b"m", b"acme"), 2, 900, 500, 7)


def settle(reservation, end=100.0, forgettable=True):
    entry = SettleEntry(reservation, input_tokens=880, output_tokens=312)
    record = record_of(entry, RESERVED, b"id %d" % reservation) if forgettable else None
    return KeptSettle(entry, record, end)


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
    book.answered(calls, results(QuotaCode.OK, QuotaCode.ALREADY_SETTLED), 0.0)
    assert book.counts == SettleCounts(settled=2) and book.next_calls(0.0) == []
    assert book.take_losses() == []


def test_what_the_server_has_forgotten_is_recorded(book):
    assert book.keep(settle(1)) and book.keep(settle(2))
    calls = book.next_calls(0.0)
    book.answered(calls, results(QuotaCode.UNKNOWN_RESERVATION, QuotaCode.OK), 0.0)
    assert book.counts == SettleCounts(kept=1, settled=1)
    calls = book.next_calls(0.0)
    terms, entries = calls_of(calls)
    assert terms.kind == RECORD
    assert entries == [RecordEntry((b"m", b"acme"), 2, 880, 0, 312, 7, b"id 1")]
    book.answered(calls, results(QuotaCode.UNKNOWN_SUBJECT_ALLOWED), 0.0)
    assert book.counts == SettleCounts(settled=1, recorded=1)


def test_without_its_subjects_a_forgotten_settle_is_lost(book):
    assert book.keep(settle(0xAB, forgettable=False))
    book.answered(book.next_calls(0.0), results(QuotaCode.UNKNOWN_RESERVATION), 0.0)
    assert book.counts == SettleCounts(lost=1)
    assert book.take_losses() == [
        "settles lost: 1 (unknown_reservation: no reservation has this id, or it ended and is "
        "forgotten): reservation 00000000000000ab"]
    assert book.take_losses() == []


@pytest.mark.parametrize("code", [QuotaCode.ALREADY_CANCELLED, QuotaCode.ALREADY_EXPIRED])
def test_what_ended_otherwise_is_lost(book, code):
    assert book.keep(settle(1))
    book.answered(book.next_calls(0.0), results(code), 0.0)
    assert book.counts == SettleCounts(lost=1) and str(code) in book.take_losses()[0]


@pytest.mark.parametrize("code", [QuotaCode.ID_IN_USE, QuotaCode.UNKNOWN_SUBJECT])
def test_a_record_that_is_refused_is_lost(book, code):
    assert book.keep(settle(1)._replace(is_forgotten=True))
    book.answered(book.next_calls(0.0), results(code), 0.0)
    assert book.counts == SettleCounts(lost=1) and str(code) in book.take_losses()[0]


def test_it_pauses_longer_after_each_failure_and_not_at_all_after_success(book):
    assert book.keep(settle(1)) and book.pause(0.0) == 0.0
    for longest in (1.0, 2.0, 4.0, 8.0, 8.0):
        book.failed(book.next_calls(0.0), Unreachable("away"), 0.0)
        assert longest / 2 <= book.pause(0.0) <= longest
    book.answered(book.next_calls(9.0), results(QuotaCode.OWNER_UNREACHABLE), 9.0)
    assert 4.0 <= book.pause(9.0) <= 8.0 and book.counts == SettleCounts(kept=1)
    book.answered(book.next_calls(18.0), results(QuotaCode.OK), 18.0)
    assert book.pause(18.0) == 0.0 and book.counts == SettleCounts(settled=1)


def test_an_answer_that_does_not_come_has_more_time_the_next_time(book):
    assert book.keep(settle(1))
    times = []
    for _ in range(7):
        times.append(book.attempt_s)
        book.failed(book.next_calls(0.0), TimedOut("no answer"), 0.0)
    assert times == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    book.answered(book.next_calls(0.0), results(QuotaCode.OWNER_UNREACHABLE), 0.0)
    assert book.attempt_s == 1.0


def test_an_attempt_that_failed_halfway_keeps_what_had_no_answer(book):
    for number in (1, 2, 3):
        assert book.keep(settle(number))
    error = Unreachable("away")
    error.partial = results(QuotaCode.OK, QuotaCode.NONE, QuotaCode.NONE)
    book.failed(book.next_calls(0.0), error, 0.0)
    assert book.counts == SettleCounts(kept=2, settled=1)
    assert [kept.entry.reservation for kept in book.next_calls(0.0)] == [2, 3]


def test_a_lifetime_that_ends_ends_the_repeats(book):
    assert book.keep(settle(1, end=10.0)) and book.keep(settle(2, end=20.0))
    assert [kept.entry.reservation for kept in book.next_calls(10.0)] == [2]
    assert book.counts == SettleCounts(kept=1, lost=1)
    assert book.take_losses() == [
        "settles lost: 1 (the lifetime ended before a server answered): "
        "reservation 0000000000000001"]


def test_an_answer_to_a_settle_whose_lifetime_has_ended_meanwhile_changes_nothing(book):
    assert book.keep(settle(1, end=10.0))
    calls = book.next_calls(9.0)
    assert book.next_calls(11.0) == []
    book.answered(calls, results(QuotaCode.OK), 11.0)
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
    assert book.keep(settle(1)) and book.keep(settle(1)._replace(is_forgotten=True))
    assert calls_of(book.next_calls(0.0))[0].kind == RECORD


def test_settles_without_a_reservation_are_apart_by_their_ids(book):
    for id in (b"a", b"b"):
        entry = SettleEntry(0, output_tokens=1)
        assert book.keep(KeptSettle(entry, record_of(entry, RESERVED, id), 100.0, True))
    assert [entry.id for entry in calls_of(book.next_calls(0.0))[1]] == [b"a", b"b"]


def test_a_frame_has_as_many_as_the_server_takes():
    book = KeptSettles(most=3_000, backoff=(1.0, 8.0))
    for number in range(1, 3_001):
        assert book.keep(settle(number))
    calls = book.next_calls(0.0)
    assert len(calls) == 2_048
    book.answered(calls, results(*[QuotaCode.OK] * 2_048), 0.0)
    assert len(book.next_calls(0.0)) == 952


def test_a_settle_that_no_server_takes_does_not_keep_others_from_being_taken():
    book = KeptSettles(most=10, backoff=(1.0, 8.0))
    for number in range(1, 9):
        assert book.keep(settle(number))
    taken = []
    while calls := book.next_calls(0.0):
        numbers = [kept.entry.reservation for kept in calls]
        if 3 in numbers:
            book.failed(calls, Refused(ErrorCode.BAD_AMOUNT, "too much"), 0.0)
        else:
            taken += numbers
            book.answered(calls, results(*[QuotaCode.OK] * len(calls)), 0.0)
    assert sorted(taken) == [1, 2, 4, 5, 6, 7, 8] and book.pause(0.0) == 0.0
    assert book.counts == SettleCounts(settled=7, lost=1)
    assert "bad_amount: too much): reservation 0000000000000003" in book.take_losses()[0]


def test_giving_up_names_some_of_the_lost_ones():
    book = KeptSettles(most=100, backoff=(1.0, 8.0))
    for number in range(1, 11):
        assert book.keep(settle(number))
    book.give_up()
    line, = book.take_losses()
    assert line.startswith("settles lost: 10 (the client was closed before a server answered)")
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
