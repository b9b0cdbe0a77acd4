"""When to try again: capped, exponential, spread apart, a pure function of its arguments."""

from __future__ import annotations

import hashlib


def retry_delay(failures: int, *, base: float, ceiling: float, spread: str = "") -> float:
    """Return how long to wait after the `failures`-th failure in a row, in seconds.

    The delay doubles with every failure and stops growing at `ceiling`. `spread` is any
    text that differs from object to object, such as a uid: it shortens the delay by up to
    a fifth, always by the same share, so that objects which failed together do not come
    back together, and a restart does not change the plan.

    Raises:
        ValueError: `failures` is below 1, or not 0 < `base` <= `ceiling`.
    """
    if failures < 1 or not 0 < base <= ceiling:
        raise ValueError(f"no delay for {failures} failures between {base} and {ceiling} seconds")
    # The exponent is bounded, or a CR that failed for a year would overflow the float.
    delay = float(min(ceiling, base * 2 ** min(failures - 1, 40)))
    share = int.from_bytes(hashlib.sha256(spread.encode()).digest()[:2], "big") / 0xFFFF if spread else 0.0
    return delay * (1 - 0.2 * share)
