"""Calls in threads of their own, for tests of blocking clients."""

import threading

from server_process import TIMEOUT_S


def in_thread(function, *arguments, **named):
    """A call in a thread of its own; join() gives its result or raises its error."""
    reported = []

    def run():
        try:
            reported.append((function(*arguments, **named), None))
        except BaseException as error:
            reported.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(TIMEOUT_S)
        assert reported, "the call did not end"
        result, error = reported[0]
        if error is not None:
            raise error
        return result
    return join
