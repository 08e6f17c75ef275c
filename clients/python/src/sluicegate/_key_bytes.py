"""The length of keys that callers choose parts of: a server decides nothing about one that is too
long. No I/O.
"""

from __future__ import annotations

import hashlib

KEY_BYTES_KEPT = 256  # a server takes 1,024 unless it has other flags; a client may send longer
DIGEST_BYTES = 32  # in hexadecimal digits


def bounded(key: bytes, bytes_max: int = KEY_BYTES_KEPT) -> bytes:
    """A longer key ends with a hash of the whole."""
    if len(key) <= bytes_max:
        return key
    digest = hashlib.blake2b(key, digest_size=DIGEST_BYTES // 2).hexdigest().encode()[:bytes_max]
    return key[:bytes_max - len(digest)] + digest
