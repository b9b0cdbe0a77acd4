import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helm_operator.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (".5m", 30),
        ("1.h", 3600),
        ("-10s", -10),
        ("+10s", 10),
        ("250ms", 0.25),
        ("1us", 1e-6),
        ("1\u00b5s", 1e-6),
        ("1\u03bcs", 1e-6),
        ("1.9ns", 1e-9),
        ("1s1s", 2),
    ],
)
def test_durations_mean_what_they_mean_in_go(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "-", "5", "soon", "4x", "1h 30m", ".s", "s", "1e3s", "--1s", "1d", "٣s", "2562048h", "9" * 5000 + "h"]
)
def test_what_go_refuses_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "1m30s"), (3600, "1h0m0s"), (0.25, "250ms"), (1.5, "1.5s"), (-10, "-10s"), (1e-6, "1\u00b5s")],
)
def test_durations_are_written_as_go_writes_them(seconds, text):
    assert format_duration(seconds) == text


@given(st.integers(-(10**15), 10**15))
@example(579_814_233_233_051)
def test_a_written_duration_reads_back_the_same(microseconds):
    seconds = microseconds / 1e6

    assert parse_duration(format_duration(seconds)) == seconds


def test_infinity_cannot_be_written():
    with pytest.raises(ValueError, match="not a duration"):
        format_duration(float("inf"))
