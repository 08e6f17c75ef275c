"""The quotas that bench/quota/pairs_load names: the server admits every call, but for `full-`."""

LIMITS = [
    {"name": "rpm", "metric": "requests", "amount": 10**12, "period_ms": 60_000},
    {"name": "tpm", "metric": "tokens", "amount": 10**15, "period_ms": 60_000},
    {"name": "tph", "metric": "tokens", "amount": 10**15, "period_ms": 3_600_000},
]
FULL = [{"name": "rph", "metric": "requests", "amount": 1, "period_ms": 3_600_000}]
SUBJECTS = [
    {"subject": r"^(\{tag|plain)-", "subject_is_regex": True, "limits": LIMITS},
    {"subject": "^full-", "subject_is_regex": True, "limits": FULL},
]
