"""What becomes of texts that hold something private, and that nothing else changes."""

from __future__ import annotations

import json
import os
import pwd
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bisect_torch.analysis.normalise import normalise
from bisect_torch.model import Build, BuildKind, Judgement, Point, Series, Verdict
from bisect_torch.redaction import HIDDEN, Private, inside, private_of, shapes, this_machine
from bisect_torch.redaction import private as private_module
from bisect_torch.redaction.private import _ANY_HOME
from tests.results.made import full, observation

SECRET = "correct horse/battery+staple"
ALICE = Private(
    users=("alice", "Alice Liddell"),
    hosts=("wonderland.example.org", "wonderland"),
    folders=(
        ("/home/alice/research/torch-bug", "<cwd>"),
        ("/home/alice", "<home>"),
        ("/big/store", "<store>"),
        ("/app", "<cases>"),
    ),
    secrets=(SECRET, "s3cr3t-value"),
)
SHORT = Private(users=("a", "root"), hosts=("pc",), folders=(("/root", "<home>"),))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('File "/home/alice/research/torch-bug/repro.py", line 3', 'File "<cwd>/repro.py", line 3'),
        ("/home/alice/.cache/x and /home/alice2/x", "<home>/.cache/x and <home>/x"),
        ("-I/home/alice/include file:///home/alice/x", "-I<home>/include file://<home>/x"),
        ("%2Fhome%2Falice%2Fx", "<home>%2Fx"),
        ("/home/bob/x.py, /Users/bob/y C:\\Users\\bob\\z", "<home>/x.py, <home>/y <home>\\z"),
        ("/big/store/envs/2.9.1-py3.11-pypi-0a1b/lib/python3.11/x.py", "<environment>/lib/python3.11/x.py"),
        ("/big/store/uv-cache", "<store>/uv-cache"),
        ("in /app/x.py, not /data/app/x.py or /apple", "in <cases>/x.py, not /data/app/x.py or /apple"),
        ("hello alice, ALICE and malice", "hello <user>, ALICE and malice"),
        ("by Alice Liddell", "by <user>"),
        ("/mnt/data/alice/x alice@wonderland:~alice", "/mnt/data/<user>/x <user>@<host>:~<user>"),
        ("cannot reach wonderland.example.org:80", "cannot reach <host>:80"),
        (f"x{SECRET}y", "x<redacted>y"),
        ("correct%20horse/battery%2Bstaple", "<redacted>"),
        ("correct+horse%2Fbattery%2Bstaple", "<redacted>"),
        ("/tmp/pytest-of-alice/pytest-0", "/tmp/pytest-of-<user>/pytest-0"),
    ],
)
def test_private_parts_become_their_names(before: str, after: str) -> None:
    assert ALICE.redact(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "a root of x**2 - a, the root cause: /usr/lib/a/root.py on pc",
        "rooted /data/root/a.txt 'root' a",
        "torch/nn/a.py: a @ b, a.root, pc-1",
    ],
)
def test_short_and_ordinary_names_leave_words_and_paths_alone(text: str) -> None:
    """``a``, ``root`` and ``pc`` are words; they are names only where nothing else can be meant."""
    assert SHORT.redact(text) == text


def test_short_names_go_where_they_are_names() -> None:
    assert SHORT.redact("a@pc root@pc ~root/x /tmp/pytest-of-root/ /root/x.py") == (
        "<user>@<host> <user>@<host> ~<user>/x /tmp/pytest-of-<user>/ <home>/x.py"
    )


def test_a_user_called_torch_does_not_hide_torch() -> None:
    private = Private(users=("torch",))
    text = "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py: torch.nn"
    assert private.redact(text) == text


def test_half_a_secret_beside_a_cut_is_a_secret() -> None:
    private = Private(secrets=("0123456789abcdefghij",))
    middle = "\n[... 70000 bytes left out ...]\n"
    text = "x" * 600 + "0123456789" + middle + "abcdefghij" + "y" * 600 + "0123456"
    assert private.redact(text) == "x" * 600 + "<redacted>" + middle + "<redacted>" + "y" * 600 + "<redacted>"


def test_a_key_of_several_lines_is_found_line_by_line() -> None:
    key = "first-line-of-a-key\nsecond-line-of-a-key\n"
    assert Private(secrets=(key.strip(),)).redact("[b'second-line-of-a-key']") == "[b'<redacted>']"


def test_json_columns_stay_json_and_secrets_in_them_are_found_in_any_spelling() -> None:
    private = Private(secrets=('pass"word\n1é',))
    told = json.dumps(['UserWarning: pass"word\n1é is wrong'])
    after = private.observation(observation(0, warnings=told)).warnings
    assert json.loads(after) == ["UserWarning: <redacted> is wrong"]


def test_an_observation_without_private_parts_is_the_same_object() -> None:
    each = full(3)
    assert ALICE.observation(each) is each


def test_every_text_of_an_observation_is_redacted() -> None:
    import dataclasses

    from bisect_torch.redaction.private import JSON_FIELDS, TEXT_FIELDS

    texts = {name: "at /home/alice/x with s3cr3t-value" for name in TEXT_FIELDS}
    texts.update({name: json.dumps({"/home/alice": "s3cr3t-value"}) for name in JSON_FIELDS})
    after = ALICE.observation(dataclasses.replace(full(), **texts))  # type: ignore[arg-type]
    written = after.to_json()
    assert "alice" not in written
    assert "s3cr3t" not in written
    # What is left are identities, numbers and words of the tool's own.
    untouched = {field.name for field in dataclasses.fields(after) if isinstance(getattr(after, field.name), str)}
    assert untouched.difference(TEXT_FIELDS, JSON_FIELDS) == {
        "backend", "build", "build_kind", "capabilities", "case_file_hash", "criterion", "cuda", "device", "digest",
        "dtype", "error_bins", "first_wrong_index", "frame_origin", "git_commit", "input_digest", "isolation", "key",
        "local_version", "lock_hash", "machine", "outcome", "phase", "python", "reference_digest", "run_id", "signal",
        "started_at", "worker",
    }  # fmt: skip


def test_two_instances_never_become_one() -> None:
    """Both paths are homes; the rows must stay apart."""
    one, other = (ALICE.instance(f"load[path=/home/{name}/w.pt]") for name in ("alice", "bob"))
    assert one.startswith("load[path=<home>/w.pt]~")
    assert other.startswith("load[path=<home>/w.pt]~")
    assert one != other
    assert ALICE.instance(one) == one


def test_words_of_a_command_line() -> None:
    words = ["run", "--index-url", "https://me:pw@host/simple", "--", "x", "--api-key", "k", "--n", "3"]
    after = ["run", "--index-url", "https://<redacted>@host/simple", "--", "x", "--api-key", "<redacted>", "--n", "3"]
    assert ALICE.words(words) == after


def test_a_stored_path_is_found_again() -> None:
    """Also on another machine, whose user has another name: what is below the home lies below the home there."""
    stored = ALICE.redact("/home/alice/cases/x.py")
    assert ALICE.expand(stored) == "/home/alice/cases/x.py"
    assert Private(folders=(("/Users/bob", "<home>"),)).expand(stored) == "/Users/bob/cases/x.py"


def test_values_of_the_tool_keep_their_types_and_stay_consistent() -> None:
    build = Build(BuildKind.LOCAL, "2.9.1", "/home/alice/venv/bin/python", python=Path("/home/alice/venv/bin/python"))
    series = Series("x.py", "f[p=/home/alice]", "cpu", (build.name,), (None,))
    after_build, after_series = inside((build, series), ALICE)
    assert after_build.name == after_series.builds[0] == "<home>/venv/bin/python"
    assert after_build.kind is BuildKind.LOCAL
    assert after_series.instance == ALICE.instance(series.instance)


def test_points_that_differ_in_what_may_hold_a_name_are_each_looked_at() -> None:
    """Equal ones are looked at once: they are many."""

    def point(name: str, counted: str) -> Point:
        return Point("2.9.1", Judgement(Verdict.ERROR, "error:A", detail=name), counts={counted: 1})

    points = [point(name, counted) for name in ("", "", "/home/alice/x") for counted in ("error:A", "/home/alice/y")]
    series = Series("x.py", "f", "cpu", ("2.9.1",) * 6, tuple(points))
    after = inside(series, ALICE)
    assert "alice" not in str(after)
    assert after.points[0] is points[0]
    assert after.points[2] is points[2]


@pytest.mark.parametrize("place", ["/home/alice/lib/torch", "/home/alice", "/big/store/envs/x-1/lib"])
def test_a_message_means_the_same_before_and_after(place: str) -> None:
    """A redacted path is a path: a change of detail would be marked in the matrix."""
    message = f"no kernel in {place}, really"
    assert normalise(ALICE.redact(message)) == normalise(message)


def test_this_machine_knows_its_user_folders_and_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/carol")
    monkeypatch.setenv("USER", "caroline")
    monkeypatch.setenv("SOME_API_TOKEN", "tok-0123456789")
    private = private_of(this_machine(), store=tmp_path / "store", case_files=[Path("/elsewhere/deep/x.py")])
    text = f"/home/carol/a {Path.cwd()}/b {tmp_path}/store/c /elsewhere/deep/d caroline tok-0123456789"
    assert private.redact(text) == "<home>/a <cwd>/b <store>/c <cases>/d <user> <redacted>"


def test_the_account_s_home_is_found_again_where_another_folder_is_home(monkeypatch: pytest.MonkeyPatch) -> None:
    account = pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setenv("HOME", "/elsewhere/me")
    private = this_machine()
    words = [f"{account}/.pythons/bin/python", "/elsewhere/me/x.py"]
    kept = [private.redact(word) for word in words]
    assert kept == ["<account-home>/.pythons/bin/python", "<home>/x.py"]
    assert [private.expand(word) for word in kept] == words


_PARTS = st.sampled_from(
    ["alice", "/home/alice", "/home/", "bob", "/", "@", "~", ":", " ", "<home>", "<user>", "<", ">", "redacted", "=",
     "https://", "token=", "s3cr3t-value", SECRET, "/big/store", "/envs/x", "/app", "wonderland", "\n", '"', "--token ",
     "Bearer ", "ghp_0123456789abcdefghij", "HF_TOKEN", "a", "1", "-----BEGIN PRIVATE KEY-----", "%2F", "\\"]
)  # fmt: skip


@example("alice--token alicealice")
@given(st.lists(_PARTS, max_size=12).map("".join) | st.text())
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = ALICE.redact(text)
    assert ALICE.redact(once) == once


@given(st.lists(_PARTS, max_size=12).map(" ".join))
def test_nothing_private_is_left(text: str) -> None:
    after = ALICE.redact(text)
    assert "s3cr3t-value" not in after
    assert SECRET not in after
    assert "ghp_0123456789abcdefghij" not in after


@given(st.text(alphabet=st.characters(exclude_characters="/\\@~=:-_.", exclude_categories=["Cs"])))
def test_a_text_without_private_parts_is_given_back(text: str) -> None:
    if not any(word in text for word in ("alice", "wonderland", "Alice")):
        assert ALICE.redact(text) == text


PIECES = st.sampled_from(
    [
        *("alice", "Alice Liddell", "wonderland", "/home/alice", "/home/alice/research/torch-bug", "/big/store/envs/x"),
        *("%2Fhome%2Falice", "/app", SECRET, "s3cr3t-value", "ghp_", "hf_", "sk-proj-", "AKIA", "SG.", "ya29.", "eyJ"),
        *("a1B2c3D4e5F6g7H8i9J0k1L2m3N4", "ABCDEFGH12345678", "https://me:pw@host", "?token=", "&X-Key=", "Bearer "),
        *(
            "basic ",
            "--api-key ",
            "--auth=",
            "API_TOKEN=",
            "MYSQL_PWD: ",
            "'ACCESS_KEY': '",
            "=",
            ":",
            "-",
            " ",
            "x1y2z3w4",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "/Users/bob",
            "C:\\Users\\bob",
            "[dtype=float32]",
        ),
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_what_is_not_looked_for_would_not_have_been_found(text: str) -> None:
    """A quick look tells which patterns need not be tried. All of them, tried one after another, say the same."""
    after = ALICE._secret.sub(lambda found: found[0] if found[0].startswith("<") else HIDDEN, text)  # type: ignore[union-attr]
    after = re.sub(shapes._PRIVATE_KEY, HIDDEN, after)
    after = re.sub(shapes._TOKEN, HIDDEN, after)
    after = re.sub(shapes._USER_IN_ADDRESS, rf"\1{HIDDEN}@", after)
    for pattern in (shapes._QUERY, shapes._VARIABLE, shapes._HEADER, shapes._OPTION):
        after = re.sub(pattern, rf"\1{HIDDEN}", after)
    for pattern, name in ALICE._paths:
        after = re.sub(pattern, name, after)
    after = _ANY_HOME.sub("<home>", after)
    for _, names, put in ALICE._names:
        after = names.sub(put, after)
    assert ALICE._redact(text) == after


def test_a_text_that_is_clean_as_it_stands_may_hold_something_as_json() -> None:
    private = Private(folders=(("/home/alice", "<home>"),))
    text = '{"\\u002fhome\\u002falice\\u002fx": 1}'
    assert private.observation(observation(message=text)).message == text
    after = private.observation(observation(message=text, parameters=text))
    assert (after.message, json.loads(after.parameters)) == (text, {"<home>/x": 1})


def test_texts_that_were_seen_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_module, "_CLEAN_CHARACTERS", 5_000)
    private = Private(users=("caroline",))
    for number in range(500):
        each = observation(number, message=f"message {number}")
        assert private.observation(each) is each
        assert len(private._clean.texts) < 60
    assert private.observation(observation(0, message="by caroline")).message == "by <user>"


@pytest.mark.parametrize("name", ["message", "instance", "parameters"])
def test_texts_of_many_observations_are_redacted_like_each_of_them(name: str) -> None:
    texts = ["by alice", "f[x=alice]", '{"x": "alice"}', "{}", "nothing"]
    alone = [getattr(ALICE.observation(observation(**{name: text})), name) for text in texts]
    assert ALICE.texts(name, texts) == alone != texts
