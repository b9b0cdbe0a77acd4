from helm_operator.contest import FEW, WINDOW, Contest

SPREAD = "uid-1"


def corrected(*times, paths=("data.k",)):
    contest = Contest()
    for time in times:
        contest = contest.corrected(paths, time)
    return contest


def test_few_corrections_are_no_contest_and_rest_nobody():
    contest = corrected(*range(FEW - 1))
    assert not contest.contested
    assert contest.rests_until(SPREAD) == 0.0


def test_five_corrections_within_ten_minutes_are_one():
    assert corrected(0, 100, 200, 300, 599).contested
    assert not corrected(0, 100, 200, 300, 600).contested
    assert not corrected(*range(0, 6000, 200)).contested


def test_the_pauses_grow_from_seconds_to_minutes_and_stay_shorter_than_what_counts_as_calm():
    contest, now, pauses = corrected(0, 1, 2, 3, 4), 4.0, []
    for _ in range(12):
        pauses.append(contest.rests_until(SPREAD) - now)
        assert contest.rests_until(SPREAD) < contest.calm_at
        now = contest.rests_until(SPREAD)
        contest = contest.corrected(["data.k"], now)
    assert 8 <= pauses[0] <= 10
    assert pauses == sorted(pauses)
    assert 380 <= pauses[-1] <= 480 < WINDOW


def test_a_contest_goes_on_however_rare_the_corrections_have_become():
    contest = corrected(0, 1, 2, 3, 4, 400, 800, 1200)
    assert contest.contested
    assert contest.calm_at == 1200 + WINDOW


def test_it_remembers_all_that_was_fought_over():
    assert corrected(0, 1).corrected(["data.a"], 2).paths == ("data.a", "data.k")
    assert corrected(0, 1, paths=()).paths == ()
