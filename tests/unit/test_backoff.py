import pytest

from helm_operator.backoff import retry_delay


def test_the_delay_doubles_and_stops_at_the_ceiling():
    delays = [retry_delay(n, base=5, ceiling=60) for n in range(1, 7)]

    assert delays == [5, 10, 20, 40, 60, 60]


def test_objects_that_failed_together_do_not_come_back_together():
    delays = {retry_delay(3, base=5, ceiling=600, spread=f"uid-{n}") for n in range(50)}

    assert len(delays) > 40
    assert all(16 <= delay <= 20 for delay in delays)


def test_the_same_object_gets_the_same_delay_after_a_restart():
    assert retry_delay(3, base=5, ceiling=600, spread="a") == retry_delay(3, base=5, ceiling=600, spread="a")


def test_a_year_of_failures_does_not_overflow():
    assert retry_delay(10**6, base=5, ceiling=600) == 600


@pytest.mark.parametrize(("failures", "base", "ceiling"), [(0, 5, 10), (1, 0, 10), (1, 20, 10)])
def test_nonsense_is_refused(failures, base, ceiling):
    with pytest.raises(ValueError, match="no delay"):
        retry_delay(failures, base=base, ceiling=ceiling)
