"""System calls that fail, as on an older kernel, under a seccomp profile, or at a limit.
Method: a seccomp filter that the server's process installs before it becomes the server. It cannot
be taken off again: what recovers is in tests/unit (support/failing_calls.hpp)."""

import ctypes
import os
import platform
import struct
import typing

import pytest

from server_process import LIBC

NUMBERS = {
    "x86_64": {"accept4": 288, "epoll_create1": 291, "epoll_ctl": 233, "epoll_pwait2": 441,
               "epoll_wait": 232, "eventfd2": 290, "inotify_add_watch": 254, "inotify_init1": 294,
               "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425,
               "setsockopt": 54, "timerfd_create": 283},
    "aarch64": {"accept4": 242, "epoll_create1": 20, "epoll_ctl": 21, "epoll_pwait2": 441,
                "epoll_wait": 22, "eventfd2": 19, "inotify_add_watch": 27, "inotify_init1": 26,
                "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425,
                "setsockopt": 208, "timerfd_create": 85},
}.get(platform.machine())

needs_seccomp = pytest.mark.skipif(NUMBERS is None, reason="the filter knows two machines")

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, JUMP_GREATER, RETURN = 0x20, 0x15, 0x25, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER_OFFSET, FIRST_ARGUMENT_OFFSET, ARGUMENT_BYTES = 0, 16, 8


class Failure(typing.NamedTuple):
    call: str
    error: int
    above: int = -1  # only calls whose argument is greater
    argument: int = 0  # which one; 0: the first


def program_of(failures):
    """The filter: for each failure five instructions, at the end ALLOW."""
    def instruction(code, value, jump_true=0, jump_false=0):
        return struct.pack("HBBI", code, jump_true, jump_false, value)

    program = b""
    for failure in failures:
        program += instruction(LOAD, NUMBER_OFFSET)
        program += instruction(JUMP_EQUAL, NUMBERS[failure.call], 0, 3)
        program += instruction(LOAD, FIRST_ARGUMENT_OFFSET + ARGUMENT_BYTES * failure.argument)
        program += instruction(JUMP_GREATER, max(failure.above, 0), 0,
                               0 if failure.above < 0 else 1)
        program += instruction(RETURN, ERRNO | failure.error)
    return program + instruction(RETURN, ALLOW)


def failing(*failures):
    """The server's `preexec`: from now on these calls fail."""
    program = program_of([Failure(*failure) for failure in failures])

    def install():
        code = ctypes.create_string_buffer(program, len(program))

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        pointer = Program(len(program) // 8, ctypes.addressof(code))
        if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(pointer), 0, 0) != 0:
            os._exit(99)
    return install
