"""Calls in threads of their own, for tests of blocking clients."""

import threading

from server_process import TIMEOUT_S


def in_thread(function, *arguments, **named):
    """A call in a thread of its own; join() gives its result or raises its error."""
    told = []

    def run():
        try:
            told.append((function(*arguments, **named), None))
        except BaseException as error:
            told.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(TIMEOUT_S)
        assert told, "the call did not end"
        result, error = told[0]
        if error is not None:
            raise error
        return result
    return join
