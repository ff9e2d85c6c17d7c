"""The list of builds comes from the indexes that uv's own settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch.errors import UsageError
from bisect_torch.releases.index import IndexOptions, effective_options, list_builds, uv_index_arguments
from bisect_torch.releases.uv_settings import UvSettings, read_uv_settings
from tests.support.index import FakeIndex
from tests.support.wheels import fake_torch

USER = """
find-links = ["/user/wheels"]
index-strategy = "unsafe-first-match"

[[index]]
name = "corp"
url = "http://corp/simple"

[[index]]
url = "http://hidden/simple"
explicit = true

[[index]]
url = "http://main/simple"
default = true
"""
MACHINE = """
index-url = "http://other/simple"
extra-index-url = ["http://extra/simple"]
"""


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    for folder, text in (("user", USER), ("machine", MACHINE)):
        path = tmp_path / folder / "uv" / "uv.toml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return {"XDG_CONFIG_HOME": str(tmp_path / "user"), "XDG_CONFIG_DIRS": str(tmp_path / "machine")}


def test_the_user_s_settings_come_before_the_machine_s(variables: dict[str, str]) -> None:
    assert read_uv_settings(variables) == UvSettings(
        "http://main/simple", ("http://corp/simple", "http://extra/simple"), ("/user/wheels",), "unsafe-first-match"
    )


def test_variables_and_options_outrank_settings(variables: dict[str, str]) -> None:
    found = effective_options(IndexOptions(), {**variables, "UV_INDEX_URL": "http://variable/simple"})
    assert found.index_url == "http://variable/simple"
    assert found.extra_index_urls == ("http://corp/simple", "http://extra/simple")
    assert effective_options(IndexOptions("http://option/simple"), variables).index_url == "http://option/simple"


def test_one_file_or_none_when_uv_is_told_so(variables: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[pip]\nindex-url = "http://own/simple"')
    assert read_uv_settings({**variables, "UV_CONFIG_FILE": str(own)}) == UvSettings("http://own/simple")
    assert read_uv_settings({**variables, "UV_NO_CONFIG": "1"}) == UvSettings()


@pytest.mark.parametrize("text", ["index-url = ", "index = 3", "[[index]]\nname = 'no url'"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "uv.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="uv's settings cannot be read") as caught:
        read_uv_settings({"UV_CONFIG_FILE": str(path)})
    assert str(path) in caught.value.message


def test_an_index_of_the_settings_is_listed_and_given_to_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeIndex([fake_torch("2.4.1")]) as server:
        path = tmp_path / "uv.toml"
        path.write_text(f'[[index]]\nurl = "{server.url}"\ndefault = true\n')
        monkeypatch.delenv("UV_NO_CONFIG")
        monkeypatch.setenv("UV_CONFIG_FILE", str(path))
        assert [build.version for build in list_builds(IndexOptions())] == ["2.4.1"]
        assert uv_index_arguments(IndexOptions()) == ["--default-index", server.url]
