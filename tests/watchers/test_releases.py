"""The cache of release records, fed by watches and by direct looks that overtake each other."""

import pytest

from helm_operator.kube import record_from_metadata
from helm_operator.release import INPUT_LABEL, OWNER_LABEL, ReleaseKey
from helm_operator.watchers import ReleaseCache

WEB = ReleaseKey("shop", "web")
DB = ReleaseKey("shop", "db")
FAR = ReleaseKey("other", "web")


@pytest.fixture
def told():
    """Return the releases that the cache said have changed."""
    return []


@pytest.fixture
def cache(told):
    return ReleaseCache(told.append)


def secret(key, revision, at, status="deployed", **labels):
    return {
        "metadata": {
            "namespace": key.namespace,
            "name": f"sh.helm.release.v1.{key.name}.v{revision}",
            "resourceVersion": str(at),
            "labels": {
                "owner": "helm",
                "name": key.name,
                "version": str(revision),
                "status": status,
                "createdAt": "1800000000",
                OWNER_LABEL: "uid-1",
                INPUT_LABEL: "d-1",
                **labels,
            },
        }
    }


def looked(*secrets):
    return tuple(record_from_metadata(item) for item in secrets)


def seen(cache, key=WEB):
    """Return revision and state of the records, newest first."""
    return [(record.revision, record.status.value) for record in cache.records(key)]


def test_a_record_is_read_from_the_labels():
    (record,) = looked(secret(WEB, 12, 7, "pending-upgrade", modifiedAt="1800000060"))

    assert (record.key, record.revision, record.status.pending) == (WEB, 12, True)
    assert (record.owner_uid, record.input_digest) == ("uid-1", "d-1")
    assert (record.changed_at, record.resource_version) == (1800000060, "7")


@pytest.mark.parametrize("labels", [{"version": "one"}, {"status": "fine"}, {"createdAt": "noon"}])
def test_labels_that_are_not_helms_are_no_record(cache, told, labels):
    cache.sink("").replace([secret(WEB, 1, 5, **labels)], "9")
    cache.sink("").apply("ADDED", secret(WEB, 2, 10, **labels))

    assert seen(cache) == []
    assert told == []


def test_the_watch_tells_each_change_once(cache, told):
    sink = cache.sink("")
    sink.replace([secret(WEB, 1, 5), secret(WEB, 2, 6), secret(DB, 1, 7)], "9")
    assert (seen(cache), seen(cache, DB)) == ([(2, "deployed"), (1, "deployed")], [(1, "deployed")])
    assert sorted(told) == [DB, WEB]

    told.clear()
    sink.apply("MODIFIED", secret(WEB, 1, 10, "superseded"))
    assert (seen(cache), told) == ([(2, "deployed"), (1, "superseded")], [WEB])
    sink.apply("MODIFIED", secret(WEB, 1, 10, "superseded"))
    assert told == [WEB]
    sink.apply("DELETED", secret(WEB, 1, 11))
    sink.apply("ADDED", secret(WEB, 10, 12))
    assert (seen(cache), told) == ([(10, "deployed"), (2, "deployed")], [WEB] * 3)
    sink.apply("DELETED", secret(FAR, 1, 13))
    assert told == [WEB] * 3


def test_what_a_new_list_lacks_was_deleted(cache, told):
    sink = cache.sink("")
    sink.replace([secret(WEB, 1, 5), secret(WEB, 2, 6), secret(DB, 1, 7)], "9")
    told.clear()
    sink.replace([secret(WEB, 2, 6)], "20")

    assert (seen(cache), seen(cache, DB)) == ([(2, "deployed")], [])
    assert sorted(told) == [DB, WEB]
    told.clear()
    sink.replace([secret(WEB, 2, 6)], "30")
    assert told == []


def test_the_watches_of_namespaces_do_not_erase_each_other(cache):
    cache.sink("shop").replace([secret(WEB, 1, 5)], "9")
    cache.sink("other").replace([secret(FAR, 1, 6)], "9")
    assert (seen(cache, WEB), seen(cache, FAR)) == ([(1, "deployed")], [(1, "deployed")])

    cache.sink("shop").replace([], "20")
    assert (seen(cache, WEB), seen(cache, FAR)) == ([], [(1, "deployed")])


def test_a_namespace_is_known_once_its_list_has_arrived(cache):
    assert not cache.knows("shop")
    cache.sink("shop").replace([], "9")
    assert cache.knows("shop")
    assert not cache.knows("other")
    cache.sink("").replace([], "9")
    assert cache.knows("other")


def test_events_older_than_a_direct_look_tell_nothing(cache, told):
    sink = cache.sink("")
    sink.replace([secret(WEB, 1, 5)], "9")
    told.clear()
    cache.observe(WEB, looked(secret(WEB, 2, 22), secret(WEB, 1, 21, "superseded")), "25")
    sink.apply("ADDED", secret(WEB, 2, 20, "pending-upgrade"))
    sink.apply("MODIFIED", secret(WEB, 1, 21, "superseded"))
    sink.apply("MODIFIED", secret(WEB, 2, 22))
    assert (seen(cache), told) == ([(2, "deployed"), (1, "superseded")], [])

    sink.apply("DELETED", secret(WEB, 1, 26))
    assert (seen(cache), told) == ([(2, "deployed")], [WEB])


def test_a_direct_look_at_one_release_holds_back_no_other(cache, told):
    sink = cache.sink("")
    sink.replace([], "9")
    cache.observe(WEB, looked(secret(WEB, 1, 20)), "25")
    sink.apply("ADDED", secret(DB, 1, 15))

    assert (seen(cache, DB), told) == ([(1, "deployed")], [DB])


def test_an_answer_that_the_watch_has_overtaken_tells_nothing(cache):
    """The look's answer was on its way while the watch told newer things."""
    sink = cache.sink("")
    sink.replace([secret(WEB, 1, 5)], "9")
    sink.apply("ADDED", secret(WEB, 2, 30))
    sink.apply("DELETED", secret(WEB, 1, 31))
    cache.observe(WEB, looked(secret(WEB, 1, 5)), "29")
    assert seen(cache) == [(2, "deployed")]

    cache.observe(WEB, looked(secret(WEB, 2, 30)), "31")
    sink.apply("ADDED", secret(DB, 1, 50))
    cache.observe(WEB, (), "49")
    assert seen(cache) == [(2, "deployed")]


def test_a_list_that_a_direct_look_has_overtaken_takes_nothing_back(cache, told):
    """A list in pages takes a while, and a Helm action may end meanwhile."""
    sink = cache.sink("")
    sink.replace([], "9")
    cache.observe(WEB, looked(secret(WEB, 1, 22)), "25")
    told.clear()
    sink.replace([secret(WEB, 1, 18, "pending-install"), secret(DB, 1, 7)], "20")
    assert (seen(cache), seen(cache, DB)) == ([(1, "deployed")], [(1, "deployed")])
    sink.replace([], "21")
    assert (seen(cache), told) == ([(1, "deployed")], [DB, DB])

    sink.apply("MODIFIED", secret(WEB, 1, 22))
    sink.apply("DELETED", secret(WEB, 1, 30))
    assert (seen(cache), told) == ([], [DB, DB, WEB])


def test_a_look_is_remembered_no_longer_than_the_watch_is_behind(cache):
    sink = cache.sink("")
    sink.replace([], "9")
    for number in range(100):
        cache.observe(ReleaseKey("shop", f"web-{number}"), (), "20")
    sink.apply("ADDED", secret(DB, 1, 19))
    assert len(cache._looked) == 100
    sink.apply("ADDED", secret(DB, 2, 21))
    assert len(cache._looked) == 0


def test_versions_that_are_no_numbers_are_taken_as_they_come(cache):
    sink = cache.sink("")
    sink.replace([secret(WEB, 1, "a")], "b")
    cache.observe(WEB, looked(secret(WEB, 2, "c")), "d")
    assert seen(cache) == [(2, "deployed")]
    sink.apply("ADDED", secret(WEB, 3, "e"))
    assert seen(cache) == [(3, "deployed"), (2, "deployed")]
