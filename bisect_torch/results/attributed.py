"""What ``attribute`` found, as the manifest of the run that found it keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bisect_torch.analysis.attribution import Cause
from bisect_torch.results.results_file import ResultsFile

PYTHON = "python"
"""The name under which the minor version of Python stands among the packages."""

KEY = "attributed"
"""Under this a manifest has a list of them."""

_TEXTS = ("case_file", "case_file_hash", "instance", "device", "before", "after", "torch")


@dataclass(frozen=True)
class Attributed:
    """What made the difference between two builds of one row.

    Args:
        case_file: This, the instance and the device name the row.
        case_file_hash: Of the text that ran on both builds.
        before: Name of the older build.
        after: Name of the newer one.
        torch: Version of the newer build's torch.
        packages: Name, old and new version of each dependency that matters; None where a side does not have it.
        bound: Names of what cannot be separated from the newer torch.
    """

    case_file: str
    case_file_hash: str
    instance: str
    device: str
    before: str
    after: str
    torch: str
    cause: Cause
    packages: tuple[tuple[str, str | None, str | None], ...] = ()
    bound: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, ...]:
        """Case file, its text, instance, device, and both builds: of one place the last answer counts."""
        return self.case_file, self.case_file_hash, self.instance, self.device, self.before, self.after

    def describe(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            **{name: getattr(self, name) for name in _TEXTS},
            "cause": self.cause.value,
            "packages": [{"name": name, "old": old, "new": new} for name, old, new in self.packages],
            "bound": list(self.bound),
        }


def attributed_in(runs: Iterable[Mapping[str, object]]) -> list[Attributed]:
    """What the manifests hold, oldest first. What is not as this version of the tool writes it is left out."""
    found = []
    for run in runs:
        kept = run.get(KEY)
        found += [_read(each) for each in kept] if isinstance(kept, list) else []
    return [each for each in found if each is not None]


def keep(file: ResultsFile, found: Attributed) -> None:
    """Write it into the manifest of the newest run of both builds; nothing is written where it is there already.

    Raises:
        InfrastructureError: It cannot be written.
    """
    known = {each.place: each for each in attributed_in(file.runs)}
    if known.get(found.place) == found:
        return
    runs = [run for run in file.runs if _ran(run, found.before) and _ran(run, found.after)] or list(file.runs)
    if runs:
        others = [each.describe() for each in attributed_in(runs[-1:]) if each.place != found.place]
        file.finish({**runs[-1], KEY: [*others, found.describe()]})


def _ran(run: Mapping[str, object], build: str) -> bool:
    names = run.get("builds")
    return isinstance(names, list) and build in names


def _read(kept: object) -> Attributed | None:
    if not isinstance(kept, dict):
        return None
    texts = {name: text for name in _TEXTS if isinstance(text := kept.get(name), str)}
    cause = next((each for each in Cause if each.value == kept.get("cause")), None)
    packages, bound = _packages(kept.get("packages")), _names(kept.get("bound"))
    if len(texts) < len(_TEXTS) or cause is None or packages is None or bound is None:
        return None
    return Attributed(**texts, cause=cause, packages=packages, bound=bound)


def _packages(kept: object) -> tuple[tuple[str, str | None, str | None], ...] | None:
    if not isinstance(kept, list) or not all(isinstance(each, dict) for each in kept):
        return None
    found = tuple((each.get("name"), each.get("old"), each.get("new")) for each in kept)
    whole = all(
        isinstance(name, str) and (old or new) and all(isinstance(side, (str, type(None))) for side in (old, new))
        for name, old, new in found
    )
    return found if whole else None


def _names(kept: object) -> tuple[str, ...] | None:
    return tuple(kept) if isinstance(kept, list) and all(isinstance(each, str) for each in kept) else None
