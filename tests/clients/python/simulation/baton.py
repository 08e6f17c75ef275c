"""Threads of which one runs at a time, chosen by the seed, and the System that the blocking client
takes from them: locks, events, sockets.

Lives: every thread waits on a semaphore of its own, until the one that runs passes the baton.
"""

import errno
import math
import socket
import struct
import threading

from server import HANGS, REFUSED

from sluicegate import _system

PREEMPTED = 0.1  # how often another thread runs before one takes a lock


class Deadlock(BaseException):
    """No thread can ever run again: unwinds them all."""


class Task:
    def __init__(self, name):
        self.name = name
        self.baton = threading.Semaphore(0)
        self.ready = lambda: True
        self.deadline = None


class Threads:
    """The scheduler. The thread that made it is the first task."""

    def __init__(self, world):
        self.world = world
        self.current = Task("main")
        self.tasks = [self.current]
        self.failure = None
        self.due = lambda: -math.inf  # until then nothing happens: ticks may last longer

    def tick(self, seconds):
        """How long a loop sleeps that checks its deadlines every `seconds`."""
        return max(seconds, (self.due() - self.world.now) / 2)

    def start(self, name, target, *arguments):
        task = Task(name)

        def run():
            task.baton.acquire()
            self.current = task
            try:
                target(*arguments)
            except Deadlock:
                pass
            except BaseException as error:  # raised by the main task
                self.failure = self.failure or error
            self.tasks.remove(task)
            self._pass_on(task)
        self.tasks.append(task)
        threading.Thread(target=run, daemon=True).start()

    def wait(self, ready, deadline=None):
        """Runs others until `ready()`, or the deadline has passed: then false."""
        own = self.current
        own.ready, own.deadline = ready, deadline
        if self._pass_on(own):
            own.baton.acquire()
        self.current = own
        if self.failure is not None:
            raise Deadlock
        return ready()

    def _pass_on(self, own):
        """False when the task itself goes on."""
        task = self._next()
        if task is own:
            return False
        task.baton.release()
        return True

    def _next(self):
        while self.failure is None:
            self.world.run_due()
            able = [task for task in self.tasks if task.ready()
                    or task.deadline is not None and self.world.now >= task.deadline]
            if able:
                return self.world.random.choice(able)
            later = min([self.world.next_event] + [
                task.deadline for task in self.tasks if task.deadline is not None])
            if later == float("inf"):
                self.failure = AssertionError(
                    f"nothing can run: {', '.join(task.name for task in self.tasks)} wait")
            else:
                self.world.now = max(self.world.now, later)
        return self.tasks[-1]  # the last first: all unwind, then the main task


class Lock:
    def __init__(self, threads):
        self._threads = threads
        self._is_taken = False

    def acquire(self, blocking=True, timeout=-1):
        threads = self._threads
        if threads.world.chance(PREEMPTED):
            threads.wait(lambda: True)
        if self._is_taken:
            deadline = None if timeout < 0 else threads.world.now + timeout
            if not blocking or not threads.wait(lambda: not self._is_taken, deadline):
                return False
        self._is_taken = True
        return True

    def release(self):
        self._is_taken = False

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


class Event:
    def __init__(self, threads):
        self._threads = threads
        self._is_set = False

    def set(self):
        self._is_set = True

    def is_set(self):
        return self._is_set

    def wait(self, timeout):
        return self._threads.wait(lambda: self._is_set, self._threads.world.now + timeout)


class Socket:
    """The client's end of a Wire, with the calls of socket.socket that the client uses."""

    def __init__(self, threads, wire):
        self._threads = threads
        self._wire = wire
        self._received = bytearray()
        self._error = None
        self._has_ended = self._is_closed = False
        self._timeout = self._tick = None
        self._writable_at = 0.0
        wire.attach(self)

    def arrived(self, data):
        self._received += data

    def broke(self, error):
        self._has_ended, self._error = True, error
        if error is not None:
            self._received.clear()

    @property
    def is_closed(self):
        return self._is_closed

    def readable(self):
        return bool(self._received) or self._has_ended or self._is_closed

    def writable(self):
        return self._threads.world.now >= self._writable_at or self._has_ended

    def settimeout(self, seconds):
        assert seconds is None or seconds * 1000 < 2**31, "poll() takes an int"
        self._timeout = seconds

    def setsockopt(self, _, option, value):
        if option == socket.SO_RCVTIMEO:
            seconds, microseconds = struct.unpack("ll", value)
            self._tick = seconds + microseconds / 1e6

    def recv(self, count, flags=0):
        if not self.readable():
            limit = self._timeout
            if limit is None:
                limit = self._threads.tick(self._tick)
            if flags & socket.MSG_DONTWAIT or not self._threads.wait(
                    self.readable, self._threads.world.now + limit):
                raise TimeoutError if self._timeout is not None else BlockingIOError
        if self._is_closed:
            raise OSError(errno.EBADF, "closed")
        if self._received:
            data = bytes(self._received[:count])
            del self._received[:count]
            return data
        if self._error is not None:
            raise self._error
        return b""

    def send(self, data, flags):
        assert flags & socket.MSG_DONTWAIT
        world = self._threads.world
        if self._is_closed or self._has_ended:
            raise BrokenPipeError
        if not self.writable():
            raise BlockingIOError
        count = len(data)
        if world.chance(0.1):  # the kernel's buffer is full
            count = world.random.randrange(count)
            self._writable_at = world.now + world.random.uniform(0, 0.03)
            self._wire.stalls.append((world.now, self._writable_at))
            world.at(self._writable_at, lambda: None)
        self._wire.from_client(data[:count])
        return count

    def sendall(self, data):
        self._wire.from_client(data)

    def shutdown(self, _):
        self._has_ended = True
        self._wire.close_by_client()

    def close(self):
        self._is_closed = True
        self._wire.close_by_client()


class SimulatedSystem(_system.System):
    def __init__(self, threads, server):
        self._threads = threads
        self._server = server
        self.monotonic = threads.world.monotonic

    def sleep(self, seconds):
        self._pause(self._threads.tick(seconds))

    def _pause(self, seconds):
        self._threads.wait(lambda: False, self._threads.world.now + seconds)

    def lock(self):
        return Lock(self._threads)

    def event(self):
        return Event(self._threads)

    def start_thread(self, name, target, *arguments):
        self._threads.start(name, target, *arguments)

    def open_socket(self, _host, _port, timeout):
        world = self._threads.world
        wire, delay = self._server.connect()
        if wire is HANGS or delay > timeout:
            self._pause(timeout)
            self._server.book.failed_attempts.append(world.now)
            raise TimeoutError("timed out")
        self._pause(delay)
        if wire is REFUSED:
            self._server.book.failed_attempts.append(world.now)
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        return Socket(self._threads, wire)

    def poll_once(self, opened, write, wait_s, *, read=True):
        if opened.is_closed:
            raise ValueError("closed")
        deadline = self._threads.world.now + math.ceil(wait_s * 1000) / 1000
        self._threads.wait(lambda: read and opened.readable() or write and opened.writable(),
                           deadline)
        return read and opened.readable(), write and opened.writable()
