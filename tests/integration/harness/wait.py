"""Waiting for something to become true, with a generous deadline and a reason when it does not."""
import time


def until(check, seconds=30, what="condition", every=0.02):
    """Calls check() until it returns something true and returns that."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s (last: %r)" % (seconds, what, value))
        time.sleep(every)
