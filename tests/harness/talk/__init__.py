"""Successful runs that talk about failures: rate limits, 401, quota, timeouts, stack traces. None of them failed."""
