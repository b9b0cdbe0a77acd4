import gzip
import io
import os
import tarfile
import tracemalloc
from dataclasses import replace

import pytest

from helm_operator.charts import changed, load_chart
from helm_operator.charts.files import Budget, read_archive, read_directory
from helm_operator.charts.ignore import Rules
from helm_operator.errors import ChartProblem

CHART_YAML = 'apiVersion: v2\nname: web\nversion: 1.2.0\nappVersion: "1.27"\n'
FILES = {"Chart.yaml": CHART_YAML, "values.yaml": "replicas: 1\n", "templates/cm.yaml": "kind: ConfigMap\n"}
DEPENDENCIES = "dependencies: [{name: store, version: 0.1.0, alias: cache}]\n"


@pytest.fixture
def write(tmp_path):
    def write(files, name="chart"):
        for path, content in files.items():
            place = tmp_path / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

    return write


def packed(files, top="web/", *, kind=tarfile.REGTYPE):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        folder = tarfile.TarInfo(top)
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for path, content in files.items():
            member = tarfile.TarInfo(top + path)
            member.type = kind
            data = content if isinstance(content, bytes) else content.encode()
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def claiming(size):
    """Return an archive whose only member claims more bytes than there are."""
    member = tarfile.TarInfo("web/x")
    member.size = size
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def sparse(size):
    """Return an archive with a file that is one hole of `size` bytes."""
    member = tarfile.TarInfo("web/x")
    member.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,0"}
    member.pax_headers |= {"GNU.sparse.size": str(size), "GNU.sparse.name": "web/x"}
    return gzip.compress(member.tobuf(tarfile.PAX_FORMAT) + bytes(1024))


def refusal(path):
    with pytest.raises(ChartProblem) as caught:
        load_chart(path)
    message = str(caught.value)
    assert message.startswith(f"chart {path}: ")
    assert "\n" not in message
    return message


def test_a_chart_tells_its_name_and_versions(write, monkeypatch):
    path = write(FILES)
    monkeypatch.chdir(path.parent)

    chart = load_chart(path.relative_to(path.parent))

    assert chart.path == path
    assert str(chart) == "web-1.2.0"
    assert chart.info.app_version == "1.27"
    assert chart.info.digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("values.yaml", "replicas: 2\n"),
        ("templates/cm.yaml", "kind: Secret\n"),
        ("README.md", "new\n"),
        ("Chart.yaml", CHART_YAML.replace("1.27", "1.28")),
        ("charts/store/Chart.yaml", "name: store\nversion: 0.1.0\n"),
    ],
)
def test_the_digest_knows_every_content(write, name, content):
    assert load_chart(write(FILES)).info.digest != load_chart(write(FILES | {name: content}, "other")).info.digest


def test_the_digest_does_not_know_packaging_times_or_what_has_no_effect(write, tmp_path):
    # helm package writes Chart.yaml anew, unpacks subcharts and leaves out what .helmignore says.
    about = CHART_YAML + DEPENDENCIES
    store = "name: store\nversion: 0.1.0\n"
    folder = write(FILES | {".helmignore": "*.bak\n", "values.yaml": "\ufeffreplicas: 1\n"})
    write({"Chart.yaml": about + "icon: ''\ndeprecated: false\ndescription: |\n  two\n  lines\n"})
    write({"old.bak": "x", "Chart.lock": "generated: now", "templates/.swp": "x", "charts/.keep": ""})
    write({"charts/s.tgz": packed({"Chart.yaml": store}, "s/"), "charts/s.tgz.prov": "signed"})
    os.utime(folder / "values.yaml", (1, 1))
    archive = tmp_path / "web.tgz"
    clean = {"Chart.yaml": f"# packed\ndescription: 'two lines '\n{about}", "values.yaml": "\ufeffreplicas: 1\n"}
    rest = {".helmignore": "*.bak\n", "charts/store/Chart.yaml": store, "charts/s.tgz.prov": "signed"}
    archive.write_bytes(packed(FILES | clean | rest))

    assert load_chart(folder).info == load_chart(archive).info
    plain = load_chart(write(FILES, "plain")).info
    marked = load_chart(write({"values.yaml": "\ufeffreplicas: 1\n"}, "plain")).info
    archive.write_bytes(packed(FILES | {"values.yaml": "\ufeffreplicas: 1\n"}))
    assert plain == marked == load_chart(archive).info


def test_the_bulk_of_a_chart_is_what_its_own_files_take_in_a_record(write):
    noise = os.urandom(300_000)
    small = load_chart(write(FILES, "small")).bulk
    large = load_chart(
        write(
            FILES
            | {"blob": noise, "text": "x" * 400_000, "charts/a/blob": noise}
            | {"charts/a/Chart.yaml": "name: a\nversion: 1.0.0"}
        )
    ).bulk

    assert 0 < small.packed < 1000
    assert 300_000 < large.packed < 310_000  # What repeats itself packs well, and subcharts are not stored.
    assert large.largest[:2] == (("text", 400_000), ("blob", 300_000))


def test_measuring_a_chart_ends_where_it_cannot_fit_any_more(write):
    chart = load_chart(write(FILES | {"a": os.urandom(6_000_000), "b": os.urandom(6_000_000)}))
    assert 4_000_000 < chart.bulk.packed < 7_000_000


def test_annotations_count_with_every_character(write):
    one = load_chart(write(FILES | {"Chart.yaml": CHART_YAML + 'annotations: {a: "x\\ny"}\n'}))
    other = load_chart(write(FILES | {"Chart.yaml": CHART_YAML + 'annotations: {a: "x y"}\n'}, "other"))

    assert one.info.digest != other.info.digest


def test_a_change_is_noticed_without_reading(write, tmp_path):
    folder = write(FILES)
    archive = tmp_path / "web.tgz"
    archive.write_bytes(packed(FILES))
    charts = [load_chart(folder), load_chart(archive)]
    assert not any(map(changed, charts))

    os.utime(folder / "values.yaml", (1, 1))
    archive.write_bytes(packed(FILES | {"README.md": "more"}))
    assert all(map(changed, charts))

    again = load_chart(folder)
    write({"README.md": ""})
    assert changed(again)
    assert changed(replace(again, path=tmp_path / "gone"))


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        pytest.param({"Chart.yaml": None}, "Chart.yaml is missing", id="no chart"),
        pytest.param({"Chart.yaml": "a: ["}, "Chart.yaml is not valid YAML: line 1: ", id="broken"),
        pytest.param({"Chart.yaml": "- a"}, "Chart.yaml must be a YAML map, not a list", id="a list"),
        pytest.param({"Chart.yaml": b"\xff"}, "Chart.yaml is not valid YAML", id="no text"),
        pytest.param({"Chart.yaml": "{}"}, "name is missing; version is missing", id="nothing in it"),
        pytest.param(
            {"Chart.yaml": "name: a/b\nversion: x"}, "'a/b'; version must be a SemVer", id="bad name, version"
        ),
        pytest.param({"Chart.yaml": "name: ..\nversion: 1.0.0"}, "a name without /, not '..'", id="not a name"),
        pytest.param(
            {"charts/a/" * 25 + "x": ""}
            | {"charts/a/" * n + "Chart.yaml": "name: a\nversion: 1" for n in range(1, 26)},
            "more than 20 deep",
            id="too deep",
        ),
        pytest.param({"Chart.yaml": "apiVersion: v3\nname: a\nversion: 1.0.0"}, "v1 or v2, not 'v3'", id="future"),
        pytest.param({"Chart.yaml": CHART_YAML + "type: app"}, "application or library, not 'app'", id="bad type"),
        pytest.param({"Chart.yaml": CHART_YAML + "type: library"}, "library chart", id="a library"),
        pytest.param(
            {"Chart.yaml": CHART_YAML + "dependencies: {a: b}"}, "must be a list, not a map", id="dependencies"
        ),
        pytest.param({"Chart.yaml": CHART_YAML + "dependencies: [a]"}, "must be a map with a name", id="a dependency"),
        pytest.param({"Chart.yaml": CHART_YAML + DEPENDENCIES}, "charts/ lacks: store", id="a hollow chart"),
        pytest.param({"requirements.yaml": DEPENDENCIES}, "charts/ lacks: store", id="a hollow chart of Helm 2"),
        pytest.param({"values.yaml": "a: ["}, "values.yaml is not valid YAML: line ", id="broken values"),
        pytest.param({"values.yaml": "a: 1\n---\n- b"}, "values.yaml must be a YAML map", id="values are a list"),
        pytest.param({"values.schema.json": "{"}, "values.schema.json is not valid JSON", id="a broken schema"),
        pytest.param({"charts/a/Chart.yaml": "name: a"}, "charts/a: Chart.yaml: version", id="a broken subchart"),
        pytest.param({"charts/README": ""}, "charts/README: Chart.yaml is missing", id="a stray file, as in Helm"),
        pytest.param({"charts/a.tgz": "x"}, "charts/a.tgz: not a chart archive", id="a broken packed subchart"),
        pytest.param({".helmignore": "a/**"}, "Helm does not support **", id="a bad .helmignore"),
    ],
)
def test_a_chart_that_helm_would_refuse_is_refused_with_the_reason(write, files, fault):
    path = write({name: content for name, content in (FILES | files).items() if content is not None})

    assert fault in refusal(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("Chart.yaml", "name: web\nversion: v1.2", id="no apiVersion, a lenient version"),
        pytest.param("Chart.yaml", CHART_YAML + "dependencies:\nicon:\n", id="keys without a value"),
        pytest.param("values.yaml", "", id="empty values"),
        pytest.param("values.yaml", "a: 1\n---\nb: 2\n---\n# nothing\n", id="values in several documents"),
        pytest.param("charts/lib/Chart.yaml", "name: lib\nversion: 1.0.0\ntype: library", id="a library as a subchart"),
    ],
)
def test_what_helm_accepts_is_accepted(write, name, content):
    load_chart(write(FILES | {name: content}))


def test_a_missing_chart_and_links_that_lead_nowhere_are_told(write, tmp_path):
    assert "no such file or directory" in refusal(tmp_path / "nowhere")
    path = write(FILES)
    (path / "self").symlink_to(path)
    assert ": self is neither" in refusal(path)
    (path / "self").unlink()
    (path / "dangling").symlink_to("nowhere")
    assert "dangling is neither" in refusal(path)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(b"no archive", "not a chart archive", id="no archive"),
        pytest.param(packed(FILES)[:-40], "not a chart archive", id="cut off"),
        pytest.param(gzip.compress(b"x" * 1000), "not a chart archive", id="gzip without tar"),
        pytest.param(packed({"../../etc/passwd": "x"}), "leads out of the chart", id="parent directory"),
        pytest.param(packed({"/etc/passwd": "x"}), "leads out of the chart", id="absolute"),
        pytest.param(packed({"..\\x": "x"}, "web\\"), "leads out of the chart", id="backslashes"),
        pytest.param(packed({"x": "x"}, "../"), "leads out of the chart", id="a top directory that leads out"),
        pytest.param(packed({"c:/x": "x"}), "leads out of the chart", id="a drive"),
        pytest.param(packed({"Chart.yaml": CHART_YAML}, ""), "at the top of the archive", id="no directory"),
        pytest.param(packed({"x": ""}, kind=tarfile.SYMTYPE), "'web/x' in the archive is a link", id="a link"),
        pytest.param(packed({"x": ""}, kind=tarfile.LNKTYPE), "'web/x' in the archive is a link", id="a hard link"),
        pytest.param(packed({"x": ""}, kind=tarfile.CHRTYPE), "a device", id="a character device"),
        pytest.param(packed({"x": ""}, kind=tarfile.BLKTYPE), "a device", id="a block device"),
        pytest.param(packed({"x": ""}, kind=tarfile.FIFOTYPE), "a device", id="a pipe"),
        pytest.param(sparse(8 * 1024**3), "'web/x' in the archive is a link, a device or a sparse", id="a sparse file"),
        pytest.param(claiming(8 * 1024**3), "a broken one, at 'web/x'", id="a size without the bytes"),
        pytest.param(
            packed(FILES | {"charts/a.tgz": packed({"../../x": ""}, "a/")}),
            "charts/a.tgz: 'a/../../x' in the archive leads out of the chart",
            id="in a packed subchart",
        ),
        pytest.param(packed({"./x": "1", "x": "2"}), "more than once", id="a file twice"),
    ],
)
def test_a_broken_or_suspicious_archive_is_refused(tmp_path, data, fault):
    path = tmp_path / "web.tgz"
    path.write_bytes(data)

    assert fault in refusal(path)


@pytest.mark.parametrize(
    ("files", "member"),
    [
        pytest.param({"zeros": bytes(3_000_000)}, "'web/zeros'", id="one large file"),
        pytest.param({f"{n}": "" for n in range(3000)}, "what follows 'web/19", id="many empty files"),
        pytest.param({"charts/a.tgz": packed({"zeros": bytes(3_000_000)})}, "'web/zeros'", id="an archive within"),
    ],
)
def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_fills_the_memory(files, member):
    bomb = packed(FILES | files)

    assert len(bomb) < 50_000
    tracemalloc.start()
    budget = Budget(1_000_000)
    with pytest.raises(ChartProblem, match="Helm's limit") as caught:
        read_archive(io.BytesIO(read_archive(io.BytesIO(bomb), budget)["charts/a.tgz"]), budget)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert member in str(caught.value)
    assert peak < 6_000_000


def test_a_directory_that_is_too_large_is_refused(write):
    with pytest.raises(ChartProblem, match=r"Helm's limit; the limit was passed at 'Chart\.yaml'"):
        read_directory(write(FILES), Budget(10))


def test_more_files_than_can_be_read_in_time_are_refused(write):
    with pytest.raises(ChartProblem, match=r"more than 2 files; the limit was passed at 'values\.yaml'"):
        read_directory(write(FILES), Budget(files=2))
    with pytest.raises(ChartProblem, match=r"more than 2 files; the limit was passed at 'web/templates/cm\.yaml'"):
        read_archive(io.BytesIO(packed(FILES)), Budget(files=2))


@pytest.mark.parametrize(
    ("rules", "ignored", "kept"),
    [
        ("", ["templates/.swp"], [".swp", "templates/x", "a/templates/.swp"]),
        ("# x\n\n*.bak", ["a.bak", "d/a.bak"], ["# x", "a.bak2"]),
        ("/a.txt", ["a.txt"], ["d/a.txt"]),
        ("d/*.txt", ["d/a.txt"], ["e/d/a.txt", "d/e/a.txt"]),
        ("?.[a-c^]", ["x.b", "x.^"], ["x.d", "xx.b"]),
        ("[^a]", ["b"], ["a", "bb"]),
        (r"\*\[", ["*["], ["x["]),
        ("d/", ["d/"], ["d", "e/"]),
        ("!*.yaml", ["a.txt"], ["a.yaml"]),
        ("!d/", ["a", "d", "e/"], ["d/"]),
        ("/a?b", ["axb"], ["a/b"]),
        ("\ufeff*.bak", ["a.bak"], ["a"]),
    ],
)
def test_helmignore_is_read_as_helm_reads_it(rules, ignored, kept):
    parsed = Rules.parse(rules)

    def ignores(path):
        return parsed.ignores(path.rstrip("/"), directory=path.endswith("/"))

    assert [path for path in ignored if not ignores(path)] == []
    assert [path for path in kept if ignores(path)] == []


@pytest.mark.parametrize("pattern", ["[", "[]", "[a", "[-a]", "[a-", "[a-]", "[b-a]", "a\\", "[\\"])
def test_a_pattern_that_cannot_be_read_is_refused(pattern):
    with pytest.raises(ValueError, match="pattern "):
        Rules.parse(pattern)
