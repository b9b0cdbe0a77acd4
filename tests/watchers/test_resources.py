"""The cache of custom resources: the newest state wins, whoever brings it."""

import pytest

from helm_operator.release import ReleaseKey, release_name
from helm_operator.watchers import ResourceCache, ResourceKey

KIND = "shop.example.com/v1 Web"
KEY = ResourceKey(KIND, "shop", "web")


@pytest.fixture
def told():
    """Return, for each change, its key and the versions before and after."""
    return []


@pytest.fixture
def cache(told):
    def changed(key, before, after):
        told.append((key, before and before.resource_version, after and after.resource_version))

    return ResourceCache(changed)


def body(version, uid="uid-1", name="web", **spec):
    meta = {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version}
    return {"apiVersion": "shop.example.com/v1", "kind": "Web", "metadata": meta, "spec": spec}


def test_the_newest_state_is_kept_and_told(cache, told):
    assert cache.store(KEY, body("5", port=1)).spec == {"port": 1}
    assert cache.store(KEY, body("10", port=2)).spec == {"port": 2}

    assert cache.get(KEY).spec == {"port": 2}
    assert told == [(KEY, None, "5"), (KEY, "5", "10")]
    assert (len(cache), cache.keys(KIND), cache.keys("other")) == (1, [KEY], [])


def test_an_older_state_never_wins(cache, told):
    cache.store(KEY, body("10", port=2))
    told.clear()

    assert cache.store(KEY, body("9", port=1)).spec == {"port": 2}
    assert cache.store(KEY, body("10", port=1)).spec == {"port": 2}
    assert (cache.get(KEY).spec, told) == ({"port": 2}, [])


def test_a_late_event_of_the_one_before_does_not_bring_it_back(cache, told):
    """Deleted and created anew: a direct look may see the new one before the watch tells the end of the old."""
    cache.store(KEY, body("10"))
    cache.store(KEY, body("20", uid="uid-2"))
    told.clear()
    cache.store(KEY, body("15"))
    cache.drop(KEY, "uid-1")

    assert (cache.get(KEY).uid, told) == ("uid-2", [])


def test_a_new_one_of_the_same_name_takes_its_place(cache, told):
    cache.store(KEY, body("10"))
    assert cache.store(KEY, body("11", uid="uid-2")).uid == "uid-2"
    assert told[-1] == (KEY, "10", "11")


def test_versions_that_are_no_numbers_are_taken_as_they_come(cache):
    cache.store(KEY, body("b", port=1))
    assert cache.store(KEY, body("a", port=2)).spec == {"port": 2}
    assert cache.store(KEY, body("a", port=3)).spec == {"port": 2}
    assert cache.store(KEY, body("a", uid="uid-2", port=4)).spec == {"port": 4}


def test_only_the_one_that_is_gone_is_dropped(cache, told):
    cache.store(KEY, body("10"))
    told.clear()
    cache.drop(KEY, "uid-2")
    assert cache.get(KEY) is not None
    cache.drop(KEY, "uid-1")
    cache.drop(KEY, "uid-1")
    cache.drop(KEY)
    assert (cache.get(KEY), len(cache), told) == (None, 0, [(KEY, "10", None)])

    cache.store(KEY, body("11"))
    cache.drop(KEY)
    assert cache.get(KEY) is None


def test_a_release_has_the_custom_resources_of_its_name_as_owners(cache):
    other = ResourceKey("shop.example.com/v1 Site", "shop", "web")
    far = ResourceKey(KIND, "far", "web")
    cache.store(KEY, body("1"))
    cache.store(other, body("2", uid="uid-2"))
    cache.store(far, {**body("3"), "metadata": {**body("3")["metadata"], "namespace": "far"}})
    release = ReleaseKey("shop", "web")

    assert set(cache.owners(release)) == {KEY, other}
    assert set(cache.owners(ReleaseKey("shop", "nobody"))) == set()
    cache.drop(KEY)
    assert set(cache.owners(release)) == {other}
    cache.drop(other)
    assert set(cache.owners(release)) == set()
    assert set(cache.owners(ReleaseKey("far", "web"))) == {far}


def test_a_long_name_is_found_by_the_name_of_its_release(cache):
    name = "x" * 60
    key = ResourceKey(KIND, "shop", name)
    cache.store(key, body("1", name=name))

    assert set(cache.owners(ReleaseKey("shop", release_name(name)))) == {key}
    assert set(cache.owners(ReleaseKey("shop", name))) == set()


def test_a_key_reads_as_kubectl_names_things():
    assert str(KEY) == "Web shop/web"
