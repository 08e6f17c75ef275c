"""Calls in separate threads, for tests of blocking clients."""

import threading

from server_process import TIMEOUT_S


def in_thread(function, *arguments, **named):
    """Starts a call in a thread; join() returns its result or raises its error."""
    results = []

    def run():
        try:
            results.append((function(*arguments, **named), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(TIMEOUT_S)
        assert results, "the call did not end"
        result, error = results[0]
        if error is not None:
            raise error
        return result
    return join
