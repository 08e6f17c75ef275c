"""The server where the kernel gives it too little address space: it does not start, and says why.
Method: the limit of `ulimit -v`, below the real binary."""

import resource

from server_process import assert_does_not_start


def test_start_without_memory_ends_with_one_line():
    """A gigabyte is less than the tables reserve."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    assert_does_not_start("--io", "epoll", preexec=limit,
                          parts=["cannot reserve", "MiB of address space for the "])
