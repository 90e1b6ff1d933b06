"""Repositories at a commit, archives, patches: there as they should be, or a clear error."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from suite_ground import Repository, benchmark, definition

from injector.suite.config.problems import SuiteError
from injector.suite.environments import git, origins, sources
from injector.suite.environments.commands import CommandFailed, Failed

PATCH = """\
--- a/train.py
+++ b/train.py
@@ -1 +1 @@
-print("one")
+print("patched")
--- /dev/null
+++ b/more.py
@@ -0,0 +1 @@
+added = True
"""


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repo")


def origin(tmp_path, **given):
    found = origins.origin_of(benchmark(tmp_path, origin=given))
    assert found is not None
    return found


def of_repository(tmp_path, repository, commit, **more):
    return origin(tmp_path, git=f"file://{repository.folder}", commit=commit, **more)


def test_a_commit_is_checked_out_once(tmp_path, base, messages, repository):
    first = repository.commit(train_py='print("one")\n')
    repository.commit(train_py='print("two")\n')
    wanted = of_repository(tmp_path, repository, first)
    assert sources.why_missing_source(wanted, base) is not None
    assert sources.install_source(wanted, base, messages.append)
    assert (wanted.folder(base) / "train.py").read_text() == 'print("one")\n'
    assert wanted.folder(base).name == "repo"
    assert sources.why_missing_source(wanted, base) is None
    assert not sources.install_source(wanted, base, messages.append)
    assert len(messages) == 1
    assert [path.name for path in (base / "sources").iterdir()] == [wanted.key]


def test_a_path_relative_to_the_suite_is_a_repository_too(tmp_path, base, messages, repository):
    commit = repository.commit(train_py="")
    wanted = origin(tmp_path, git="./repo", commit=commit)
    assert sources.install_source(wanted, base, messages.append)


def test_two_commits_do_not_share_a_folder(tmp_path, repository):
    one, two = (repository.commit(train_py=text) for text in ("1", "2"))
    keys = {of_repository(tmp_path, repository, commit).key for commit in (one, two)}
    assert len(keys) == 2
    assert of_repository(tmp_path, repository, one).key in keys


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "there is no commit"),
        ({"branch": "main"}, "main is at"),
        ({"commit": "main"}, "'main' is no whole commit"),
        ({"commit": "abc1234"}, "'abc1234' is no whole commit"),
    ],
)
def test_what_moves_is_no_source(tmp_path, repository, given, says):
    now = repository.commit(train_py="")
    with pytest.raises(SuiteError, match=says) as error:
        origin(tmp_path, git=f"file://{repository.folder}", **given)
    assert "suite.yaml:3" in str(error.value)
    assert f"write `commit: {now}`" in str(error.value)


def test_a_commit_that_is_not_there(tmp_path, base, messages, repository):
    now = repository.commit(train_py="")
    wanted = of_repository(tmp_path, repository, "0" * 40)
    with pytest.raises(Failed, match=f"has no commit {'0' * 40}") as error:
        sources.install_source(wanted, base, messages.append)
    assert now in str(error.value)
    assert list((base / "sources").iterdir()) == []


def test_a_repository_that_is_not_there(tmp_path, base, messages):
    wanted = origin(tmp_path, git=f"file://{tmp_path}/nowhere", commit="0" * 40)
    with pytest.raises(Failed, match="nowhere"):
        sources.install_source(wanted, base, messages.append)


def test_a_server_that_cannot_be_reached(tmp_path, base, messages):
    url = "https://127.0.0.1:9/some/repo.git"  # port 9: nobody listens there
    with pytest.raises(Failed, match="cannot be reached") as error:
        sources.install_source(origin(tmp_path, git=url, commit="0" * 40), base, messages.append)
    assert url in str(error.value)
    assert "insteadOf" in str(error.value)


def test_what_was_changed_by_hand_is_known(tmp_path, base, messages, repository):
    wanted = of_repository(tmp_path, repository, repository.commit(train_py="one", b_py="b"))
    sources.install_source(wanted, base, messages.append)
    tree = wanted.folder(base)
    (tree / "written_by_the_program.txt").write_text("output")
    assert sources.why_missing_source(wanted, base) is None
    (tree / "train.py").write_text("changed")
    assert "changed since it was made" in str(sources.why_missing_source(wanted, base))
    with pytest.raises(Failed, match=r"train\.py") as error:
        sources.install_source(wanted, base, messages.append)
    assert "b.py" not in str(error.value)
    assert sources.install_source(wanted, base, messages.append, force=True)
    assert (tree / "train.py").read_text() == "one"


def test_another_commit_that_was_checked_out_by_hand_is_known(tmp_path, base, messages, repository):
    repository.commit(train_py="one")
    wanted = of_repository(tmp_path, repository, repository.commit(train_py="two"))
    sources.install_source(wanted, base, messages.append)
    there = object.__new__(Repository)
    there.folder = wanted.folder(base)
    there.git("commit", "--quiet", "--allow-empty", "-m", "mine")
    assert "its commit" in str(sources.why_missing_source(wanted, base))


def test_patches_are_applied_and_are_no_change_by_hand(tmp_path, base, messages, repository):
    (tmp_path / "mend.patch").write_text(PATCH)
    commit = repository.commit(train_py='print("one")\n')
    wanted = of_repository(tmp_path, repository, commit, patches=["mend.patch"])
    sources.install_source(wanted, base, messages.append)
    tree = wanted.folder(base)
    assert (tree / "train.py").read_text() == 'print("patched")\n'
    assert sources.why_missing_source(wanted, base) is None
    (tree / "more.py").write_text("")
    assert "more.py" in str(sources.why_missing_source(wanted, base))


def test_a_patch_that_does_not_apply_leaves_nothing(tmp_path, base, messages, repository):
    (tmp_path / "mend.patch").write_text(PATCH)
    commit = repository.commit(train_py="something else\n")
    wanted = of_repository(tmp_path, repository, commit, patches=["mend.patch"])
    with pytest.raises(Failed, match=r"mend\.patch: the patch does not apply"):
        sources.install_source(wanted, base, messages.append)
    assert list((base / "sources").iterdir()) == []


def test_submodules_are_checked_out_where_they_are_requested(
    tmp_path, base, messages, repository, monkeypatch
):
    for number, (key, value) in enumerate([("protocol.file.allow", "always")]):
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    inner = Repository(tmp_path / "inner")
    inner.commit(part_py="part")
    repository.git("submodule", "--quiet", "add", f"file://{inner.folder}", "inner")
    commit = repository.commit(train_py="")
    without = of_repository(tmp_path, repository, commit)
    sources.install_source(without, base, messages.append)
    assert not (without.folder(base) / "inner" / "part.py").exists()
    wanted = of_repository(tmp_path, repository, commit, submodules=True)
    sources.install_source(wanted, base, messages.append)
    assert (wanted.folder(base) / "inner" / "part.py").read_text() == "part"
    assert sources.why_missing_source(wanted, base) is None


def test_what_an_interrupted_install_left_is_no_source(tmp_path, base, messages, repository):
    wanted = of_repository(tmp_path, repository, repository.commit(train_py="one"))
    half = base / "sources" / (wanted.key + ".making") / "repo"
    half.mkdir(parents=True)
    (half / "train.py").write_text("half of")
    assert sources.why_missing_source(wanted, base) is not None
    sources.install_source(wanted, base, messages.append)
    assert (wanted.folder(base) / "train.py").read_text() == "one"
    assert not half.exists()


def test_several_at_once_make_it_once(tmp_path, base, repository):
    wanted = of_repository(tmp_path, repository, repository.commit(train_py="one"))
    made, messages = [], []
    threads = [
        threading.Thread(
            target=lambda: made.append(sources.install_source(wanted, base, messages.append))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, False, False, True]


def test_the_repository_around_us_is_left_alone(tmp_path, messages, repository, monkeypatch):
    """Neither a hook's variables nor a repository around the base lead git astray."""
    commit = repository.commit(train_py='print("one")\n')
    around = Repository(tmp_path / "around")
    around.commit(own_py="")
    monkeypatch.setenv("GIT_DIR", str(around.folder / ".git"))
    (tmp_path / "mend.patch").write_text(PATCH)
    wanted = of_repository(tmp_path, repository, commit, patches=["mend.patch"])
    base = around.folder / "base"
    sources.install_source(wanted, base, messages.append)
    assert (wanted.folder(base) / "more.py").exists()
    monkeypatch.delenv("GIT_DIR")
    assert around.git("status", "--porcelain") == "?? base/"


def test_a_definition_gets_the_repository_among_its_own_files(tmp_path, base, messages, repository):
    commit = repository.commit(train_py="one")
    folder = definition(tmp_path / "bench", main_py="import src.train", voirfile_py="")
    pinned = {"git": str(repository.folder), "commit": commit, "into": "src"}
    wanted = origins.origin_of(benchmark(tmp_path, origin=pinned, definition=str(folder)))
    assert wanted is not None
    sources.install_source(wanted, base, messages.append)
    home, key = wanted.home(base), wanted.key
    assert (home / "main.py").exists() and (home / "src" / "train.py").exists()
    assert not (home / "voirfile.py").exists()
    assert wanted.folder(base) == home / "src"
    assert sources.why_missing_source(wanted, base) is None
    (home / "main.py").write_text("changed")
    assert "main.py" in str(sources.why_missing_source(wanted, base))
    (folder / "main.py").write_text("new")  # the definition itself: another source
    again = origins.origin_of(benchmark(tmp_path, origin=pinned, definition=str(folder)))
    assert again is not None and again.key != key


def test_a_folder_of_this_machine_is_used_where_it_is(tmp_path, base, messages):
    (tmp_path / "mine" / "src").mkdir(parents=True)
    wanted = origin(tmp_path, path="mine", folder="src")
    assert wanted.folder(base) == tmp_path / "mine" / "src"
    assert not sources.install_source(wanted, base, messages.append)
    assert sources.why_missing_source(wanted, base) is None


def test_an_archive_is_unpacked_and_patched(tmp_path, base, messages, monkeypatch):
    packed = archive(tmp_path / "house", "brick", "1.0", {"train.py": 'print("one")\n'})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packed.parent))
    (tmp_path / "mend.patch").write_text(PATCH)
    wanted = origin(tmp_path, package="brick==1.0", archive=True, patches=["mend.patch"])
    assert sources.install_source(wanted, base, messages.append)
    tree = wanted.folder(base)
    assert tree.name == "brick"
    assert (tree / "train.py").read_text() == 'print("patched")\n'
    assert not sources.install_source(wanted, base, messages.append)
    (tree / "train.py").unlink()
    assert "train.py" in str(sources.why_missing_source(wanted, base))


def archive(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A source archive with a build backend of its own, which needs nothing."""
    import io
    import tarfile

    backend = (
        "import os\n"
        "def prepare_metadata_for_build_wheel(folder, *_):\n"
        f"    os.mkdir(folder + '/{name}.dist-info')\n"
        f"    with open(folder + '/{name}.dist-info/METADATA', 'w') as file:\n"
        f"        file.write('Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n')\n"
        f"    return '{name}.dist-info'\n"
    )
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    info = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        content = {"backend.py": backend, "pyproject.toml": project, "PKG-INFO": info, **files}
        for path, text in content.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(text.encode())
            packed.addfile(member, io.BytesIO(text.encode()))
    return file


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"package": "a==1", "git": "b"}, "a program comes from one place: package or git"),
        ({"package": "a>=1"}, "'a>=1' is no pin: write NAME==VERSION"),
        ({"archive": True}, "write `package: NAME==VERSION`"),
        ({"commit": "a" * 40}, "of which repository? `git` names it"),
        ({"path": "nowhere"}, "there is no folder"),
        (
            {"git": "x"},
            "x: there is no commit, and results of a source that moves cannot be compared; "
            "write `commit:` under `origin`",
        ),
        ({"git": "x", "patches": ["no.patch"]}, "there is no file"),
        ({"git": "x", "into": "../out"}, "does not lie in the definition's folder"),
        ({"git": "x", "into": "src"}, "there is no definition"),
        ({"package": "a==1", "patches": ["no.patch"]}, "patches are for"),
        ("a==1", "is a mapping"),
    ],
)
def test_what_makes_no_sense_is_reported(tmp_path, given, says):
    with pytest.raises(SuiteError, match=r"suite\.yaml:3") as error:
        origins.origin_of(benchmark(tmp_path, origin=given))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("fatal: unable to access 'https://x/': Could not resolve host: x",
         "cannot be reached: fatal: unable to access 'https://x/': Could not resolve host: x"),
        ("ssh: Could not resolve hostname x: Name or service not known\nfatal: Could not read from "
         "remote repository.\n\nPlease make sure you have the correct access rights\nand the "
         "repository exists.", "Name or service not known"),
        ("fatal: '/x' does not appear to be a git repository\nfatal: Could not read from remote "
         "repository.", "is no git repository"),
    ],
)  # fmt: skip
def test_why_a_repository_cannot_be_had(monkeypatch, tail, message):
    """It is no question of the commit, as it was once said."""

    def fails(*words):
        raise CommandFailed(["git"], 128, tail)

    monkeypatch.setattr(git, "git", fails)
    with pytest.raises(Failed) as error:
        git.where_is("https://x/y.git", "HEAD")
    assert message in str(error.value).splitlines()[0]


# --- in part, and from archives ---------------------------------------------------------------------


@pytest.fixture
def wide(repository):
    """A repository with two folders and a file; its commit."""
    for folder in ("one", "two/deep"):
        (repository.folder / folder).mkdir(parents=True)
        (repository.folder / folder / "main.py").write_text(folder)
    repository.git("config", "uploadpack.allowFilter", "true")
    return repository.commit(README_md="read", two_py="beside")


def archive_of(repository, commit, file, *words):
    form = ("--format=tar.gz", "--prefix=any-name/", f"--output={file}")
    repository.git("archive", *(words or form), commit)
    return file


@pytest.mark.parametrize("archived", [False, True])
def test_only_some_folders_of_a_repository(tmp_path, base, messages, repository, wide, archived):
    more = {}
    if archived:
        more["archive"] = str(archive_of(repository, wide, tmp_path / "a.tar.gz"))
    wanted = of_repository(tmp_path, repository, wide, only=["two/deep"], **more)
    sources.install_source(wanted, base, messages.append)
    tree = wanted.folder(base)
    assert (tree / "two" / "deep" / "main.py").read_text() == "two/deep"
    assert (tree / "README.md").exists()
    assert not (tree / "one").exists()
    assert sources.why_missing_source(wanted, base) is None
    (tree / "two" / "deep" / "main.py").write_text("changed")
    assert "main.py" in str(sources.why_missing_source(wanted, base))
    assert wanted.key != of_repository(tmp_path, repository, wide).key


def test_a_folder_that_the_commit_has_not(tmp_path, base, messages, repository, wide):
    wanted = of_repository(tmp_path, repository, wide, only=["one", "three"])
    with pytest.raises(Failed, match=r"has no folder three: mend origin\.only"):
        sources.install_source(wanted, base, messages.append)
    assert list((base / "sources").iterdir()) == []


def test_the_folder_of_the_program_has_to_be_in_the_source(tmp_path, base, messages, repository):
    commit = repository.commit(train_py="")
    wanted = of_repository(tmp_path, repository, commit, folder="nosuch")
    for _ in range(2):  # also when the source is there already
        with pytest.raises(Failed, match=r"has no folder nosuch: mend origin\.folder"):
            sources.install_source(wanted, base, messages.append)
    assert "mend origin.folder" in sources.why_missing_source(wanted, base)
    whole = of_repository(tmp_path, repository, commit)
    assert not sources.install_source(whole, base, messages.append)
    (tmp_path / "mine").mkdir()
    here = origin(tmp_path, path="mine", folder="src")
    with pytest.raises(Failed, match="mend origin"):
        sources.install_source(here, base, messages.append)


def test_an_archive_of_the_commit_stands_for_the_repository(tmp_path, base, messages, repository):
    (tmp_path / "mend.patch").write_text(PATCH)
    first = repository.commit(train_py='print("one")\n')
    archive_of(repository, first, tmp_path / "first.tar.gz")
    pinned = {"git": "https://example.invalid/x", "commit": first, "patches": ["mend.patch"]}
    wanted = origin(tmp_path, **pinned, archive="first.tar.gz")
    assert sources.install_source(wanted, base, messages.append)
    tree = wanted.folder(base)
    assert (tree / "train.py").read_text() == 'print("patched")\n'
    assert sources.why_missing_source(wanted, base) is None
    # However it came here, it is the same source.
    assert not sources.install_source(origin(tmp_path, **pinned), base, messages.append)
    (tree / "train.py").write_text("changed")
    assert "train.py" in str(sources.why_missing_source(wanted, base))


def test_an_archive_is_downloaded(tmp_path, base, messages, repository):
    commit = repository.commit(train_py="one")
    file = archive_of(repository, commit, tmp_path / "a.tar.gz")
    for url, says in ((file.as_uri(), None), ((tmp_path / "b").as_uri(), "cannot be reached")):
        wanted = origin(tmp_path, git="https://x.invalid/x", commit=commit, archive=url)
        if says is None:
            sources.install_source(wanted, base, messages.append)
            assert (wanted.folder(base) / "train.py").read_text() == "one"
        else:
            with pytest.raises(Failed, match=says):
                sources.install_source(wanted, base, messages.append, force=True)
    assert (wanted.folder(base) / "train.py").read_text() == "one"  # what was there stays


def test_archives_that_are_not_of_the_commit(tmp_path, base, messages, repository):
    first, second = (repository.commit(train_py=text) for text in ("one", "two"))
    tree = f"{first}^{{tree}}"
    other = archive_of(repository, second, tmp_path / "other.tar.gz")
    unnamed = archive_of(repository, tree, tmp_path / "unnamed.tar.gz")
    bare = tmp_path / "bare.tar"
    archive_of(repository, first, bare, "--format=tar", f"--output={bare}")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive_of(repository, first, tmp_path / "whole.tar.gz").read_bytes()[:150])
    for file, says in (
        (other, f"is of commit {second}, and {first} is wanted: make one with `git archive"),
        (unnamed, "does not say which commit it is of"),
        (bare, "holds more than one folder"),
        (cut, r"(is no archive of a commit|cannot be unpacked)"),
        (tmp_path / "mislaid.tar.gz", "there is no file"),
    ):
        wanted = origin(tmp_path, git="https://x.invalid/x", commit=first, archive=str(file))
        with pytest.raises(Failed, match=says):
            sources.install_source(wanted, base, messages.append)
        assert list((base / "sources").iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/some/repo",
        "https://github.com/some/repo.git",
        "git@github.com:some/repo",
    ],
)
def test_where_git_does_not_reach_github_its_archive_is_taken(
    tmp_path, base, messages, repository, monkeypatch, url
):
    commit = repository.commit(train_py="one")
    file = archive_of(repository, commit, tmp_path / "a.tar.gz")
    urls = []

    def reached(url, into):
        urls.append(url)
        into.write_bytes(file.read_bytes())

    def unreached(url, *rest):
        raise git.Unreachable(f"{url} cannot be reached")

    monkeypatch.setattr(git, "check_out", unreached)
    monkeypatch.setattr(sources, "_download", reached)
    wanted = origin(tmp_path, git=url, commit=commit)
    sources.install_source(wanted, base, messages.append)
    assert urls == [f"https://codeload.github.com/some/repo/tar.gz/{commit}"]
    assert (wanted.folder(base) / "train.py").read_text() == "one"


def test_neither_a_repository_nor_its_archive_can_be_reached(tmp_path, base, messages, monkeypatch):
    for number, name in enumerate(("https://github.com/", "https://codeload.github.com/")):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", "url.https://127.0.0.1:9/.insteadOf")
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", name)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    wanted = origin(tmp_path, git="https://github.com/some/repo", commit="0" * 40)
    with pytest.raises(Failed, match="cannot be reached") as error:
        sources.install_source(wanted, base, messages.append)
    assert "insteadOf" in str(error.value)
    assert "Nor can its archive: https://codeload.github.com/some/repo" in str(error.value)
    assert "origin.archive" in str(error.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"git": "x", "archive": True}, "names an archive of the commit"),
        ({"git": "x", "archive": "a.tgz", "submodules": True}, "an archive has no submodules"),
        ({"package": "x==1", "archive": "a.tgz"}, "is `true` for the source archive"),
        ({"git": "x", "only": ["../y"]}, "is no folder of the repository"),
        ({"package": "x==1", "only": ["y"]}, "is fetched in part"),
    ],
)
def test_origins_that_say_archive_or_only_wrongly(tmp_path, given, says):
    with pytest.raises(SuiteError, match=says):
        origin(tmp_path, **given)
