import pytest

from helm_operator.conditions import MAX_MESSAGE, ConditionSet, ConditionType, cut

NOW = "2026-11-30T10:00:00Z"
LATER = "2026-11-30T11:00:00Z"


def one(status="True", reason="InstallSuccessful", message="fine"):
    conditions = ConditionSet([], generation=1, now=NOW)
    verb = {"True": "observe_condition", "False": "observe_absence", "Unknown": "observe_unknown"}[status]
    getattr(conditions, verb)(ConditionType.DEPLOYED, reason, message)
    return conditions.as_list()


def test_the_time_stays_when_only_reason_and_message_change():
    again = ConditionSet(one(), generation=2, now=LATER)
    again.observe_condition(ConditionType.DEPLOYED, "UpdateSuccessful", "other")

    (entry,) = again.as_list()
    assert entry["lastTransitionTime"] == NOW
    assert (entry["reason"], entry["message"], entry["observedGeneration"]) == ("UpdateSuccessful", "other", 2)


def test_the_time_moves_when_the_status_changes():
    again = ConditionSet(one(), generation=1, now=LATER)
    again.observe_absence(ConditionType.DEPLOYED, "NotInstalled")

    assert again.as_list()[0]["lastTransitionTime"] == LATER


def test_a_type_that_nobody_mentions_keeps_its_last_value():
    assert ConditionSet(one(), generation=9, now=LATER).as_list() == one()


def test_foreign_conditions_survive_behind_ours():
    foreign = {"type": "Audited", "status": "True", "by": "someone"}
    again = ConditionSet([foreign], generation=1, now=NOW)
    again.observe_condition(ConditionType.DEPLOYED, "InstallSuccessful")

    assert [entry["type"] for entry in again.as_list()] == ["Deployed", "Audited"]
    assert again.as_list()[1] == foreign


@pytest.mark.parametrize("reason", ["", "two words", "9lives", "trailing-"])
def test_a_reason_that_the_api_server_would_refuse_is_a_bug(reason):
    with pytest.raises(ValueError, match="not a condition reason"):
        one(reason=reason)


def test_a_long_message_is_cut_at_a_character_and_says_so():
    text = cut("ż" * MAX_MESSAGE)

    assert len(text.encode()) <= MAX_MESSAGE
    assert text.endswith("(cut)")


def test_a_message_is_cut_at_4096_bytes_and_says_so():
    found = ConditionSet([], generation=1, now="2026-11-30T10:00:00Z")
    found.observe_condition(ConditionType.DEPLOYED, "InstallSuccessful", "ż" * 4000)
    message = found.as_list()[0]["message"]
    assert len(message.encode()) <= 4096
    assert message.endswith("… (cut)")
