"""The one table about greedy decoding: what changes the output, in which precision, and whether LayerCast stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bisect_torch.analysis.decoding import (
    Change,
    Measures,
    ReleaseChange,
    Upgrade,
    axis_change,
    over_configurations,
    over_releases,
    precision_change,
    release_changes,
    repeat_change,
)
from bisect_torch.analysis.decoding_sweep import AXES, Sweep, sweep
from bisect_torch.analysis.transitions import NOT_RUN
from bisect_torch.model import BuildKind
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import Line, clean, listed, plural, width_of, wrap

UPGRADE, AGAIN = "upgrading torch", "another process"
THINGS = {"batch": "batch size", "threads": "threads", "padding": "left padding", "processes": "tensor parallel"}
PRECISIONS = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float32", "layercast": "LayerCast"}
SOURCE = "arXiv 2506.09501"

_LABEL = 22
_COLUMN = 14


@dataclass(frozen=True)
class Precision:
    """What was found in one precision.

    Args:
        axes: By name in :data:`~bisect_torch.analysis.decoding_sweep.AXES`.
        by_build: Measures over the configurations.
        by_configuration: Measures over the releases, in the order of the configurations.
        beside_float32: Against the same configurations in float32.
    """

    dtype: str
    upgrade: ReleaseChange
    axes: dict[str, Change]
    again: Change
    by_build: dict[str, Measures]
    by_configuration: tuple[Measures, ...]
    beside_float32: Change

    @property
    def name(self) -> str:
        """As people write it."""
        return PRECISIONS.get(self.dtype, clean(self.dtype))

    @property
    def changes(self) -> dict[str, Change]:
        """By the words for what varies; that another process differs is no choice of the user's and not in it."""
        return {UPGRADE: self.upgrade.change, **{THINGS[axis]: change for axis, change in self.axes.items()}}


@dataclass(frozen=True)
class Decoding:
    """All that the table is made from.

    Args:
        releases: The builds that follow on each other.
        left_out: Two builds to the known releases between them that did not take part, where there are some: those
            that follow on each other, and both ends of every upgrade that changed something.
    """

    sweep: Sweep
    releases: tuple[str, ...]
    precisions: tuple[Precision, ...]
    left_out: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def unknown(self, upgrade: Upgrade) -> tuple[bool, bool]:
        """Whether the output may have changed before this upgrade: in a release that was not run, in one that gave no
        output to compare."""
        between = self.releases[self.releases.index(upgrade.after) + 1 : self.releases.index(upgrade.build)]
        reasons = {
            self.sweep.missing.get((configuration, name))
            for name in between
            for difference in upgrade.differences
            for configuration in difference.configurations
        }
        not_run = (upgrade.after, upgrade.build) in self.left_out or NOT_RUN in reasons
        return not_run, bool(reasons - {NOT_RUN})


def decoding(findings: Findings) -> Decoding | None:
    """What the results hold about decoding; None where they hold nothing."""
    if not findings.recorded("outputs"):
        return None
    found = sweep(findings.observations, findings.build_names)
    # A local interpreter's torch may be anything: it is no step of an upgrade.
    releases = tuple(each.name for each in findings.builds if each.kind is not BuildKind.LOCAL) or findings.build_names
    known = [dtype for dtype in PRECISIONS if dtype in found.dtypes]
    dtypes = [*known, *(dtype for dtype in found.dtypes if dtype not in known)]
    precisions = tuple(_precision(found, dtype, releases) for dtype in dtypes)
    steps = [*pairwise(releases), *((each.after, each.build) for of in precisions for each in of.upgrade.upgrades)]
    left_out = {step: names for step in steps if (names := findings.left_out(*step))}
    return Decoding(found, releases, precisions, left_out)


def _precision(found: Sweep, dtype: str, releases: Sequence[str]) -> Precision:
    return Precision(
        dtype,
        release_changes(found, dtype, releases),
        {axis: axis_change(found, dtype, axis) for axis in AXES},
        repeat_change(found, dtype),
        over_configurations(found, dtype),
        tuple(over_releases(found, dtype, releases).values()),
        precision_change(found, dtype, "float32"),
    )


def decoding_lines(found: Decoding, width: int) -> Iterable[Line]:
    """The table, a sentence for each finding and what is missing, in lines of at most ``width`` columns from 36 on."""
    number = max(1, (width - _LABEL) // _COLUMN)
    for start in range(0, len(found.precisions), number):
        yield from _table(found.precisions[start : start + number], found, width)
        yield ()
    for text in decoding_sentences(found):
        yield from (((line, ""),) for line in wrap(text.split(" "), width, indent="  "))
    yield ()


# --- the table


def _table(columns: Sequence[Precision], found: Decoding, width: int) -> Iterable[Line]:
    yield _row("", [each.name for each in columns], "bold")
    yield from _heading("does the greedy output change? (first token, its median; comparisons)", width)
    yield from _rows(UPGRADE, [_upgrade_field(each.upgrade, found) for each in columns])
    for axis in AXES:
        yield from _rows(THINGS[axis], [_field(each.axes[axis]) for each in columns])
    if any(each.again.compared for each in columns):
        yield from _rows(AGAIN, [_field(each.again) for each in columns])
    configurations = plural(max(len(found.sweep.of(each.dtype)) for each in columns), "configuration")
    builds = plural(len(found.sweep.builds), "build")
    yield ()
    yield from _heading(
        f"over the {configurations} of a build ({SOURCE}); from the best of {builds} to the worst", width
    )
    yield from _measure_rows([tuple(each.by_build.values()) for each in columns])
    if len(found.releases) > 1:
        yield ()
        yield from _heading(f"over {len(found.releases)} releases; from the best configuration to the worst", width)
        yield from _measure_rows([each.by_configuration for each in columns])


def _heading(text: str, width: int) -> Iterable[Line]:
    return [((line, "dim"),) for line in wrap(text.split(" "), width, indent="  ")]


def _row(label: str, fields: Sequence[str], style: str = "") -> Line:
    padded = [field + " " * max(1, _COLUMN - width_of(field)) for field in fields]
    return ((label.ljust(_LABEL), ""), ("".join(padded).rstrip(), style))


def _rows(label: str, fields: Sequence[Sequence[str]]) -> Iterable[Line]:
    for place in range(max(len(each) for each in fields)):
        texts = [each[place] if place < len(each) else "" for each in fields]
        yield _row("" if place else label, texts, "dim" if place else "")


def _field(change: Change) -> list[str]:
    """``at token 7``, ``median 31``, ``12 of 40``, ``3 open``; ``no`` only where nothing is left open."""
    if change.changed:
        words = [f"at token {change.token}", f"median {change.median:g}"]
    else:
        words = ["no" if change.compared and not change.open else "not seen" if change.compared else "not compared"]
    counts = [f"{change.changed} of {change.compared}"] if change.compared else []
    return [*words, *counts, *([f"{change.open} open"] if change.open else [])]


def _upgrade_field(found: ReleaseChange, of: Decoding) -> list[str]:
    """The first release that changed something, and at which token it did; a later one may at an earlier token.

    ``by 2.14.0`` where a release before it may have changed it.
    """
    if not found.upgrades:
        return _field(found.change)
    first = found.upgrades[0]
    since = "by" if any(of.unknown(first)) else "from"
    return [f"{since} {clean(first.build)}", f"at token {first.token}", *_field(found.change)[2:]]


def _measure_rows(columns: Sequence[Sequence[Measures]]) -> Iterable[Line]:
    measured = [[each for each in column if each.cells > 1] for column in columns]
    yield _row("Std@Acc", [_span([each.std_accuracy for each in column], _percent) for column in measured])
    lengths = [_span([each.avg_std_output_length for each in column], "{:.2f}".format) for column in measured]
    yield _row("Avg_Std@Output_Length", lengths)
    yield _row("Div_Index, earliest", [_earliest(column) for column in measured])
    yield _row("  questions diverging", [_diverging(column) for column in measured])
    spreads = [_span([each.avg_std_top1_probability for each in column], "{:.0e}".format) for column in measured]
    yield _row("Avg_Std@top1_prob", spreads)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _span(values: Sequence[float | None], words: Callable[[float], str]) -> str:
    """Least and largest value; a dash where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    least, largest = (words(value) if value else "0" for value in (min(known), max(known)))
    span = least if least == largest else f"{least}–{largest}"
    return f"{span} %" if words is _percent else span


def _earliest(column: Sequence[Measures]) -> str:
    if not column:
        return "–"
    places = [each.earliest for each in column if each.earliest is not None]
    if places:
        return str(min(places))
    return "not seen" if any(each.missing for each in column) else "never"


def _diverging(column: Sequence[Measures]) -> str:
    if not column:
        return "–"
    numbers = sorted({each.diverging for each in column})
    span = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
    return f"{span} of {len(column[0].div_index)}"


# --- the sentences


def decoding_sentences(found: Decoding) -> list[str]:
    """One for each finding, then what could not be compared."""
    texts = []
    for each in found.precisions:
        texts += [_upgrade_sentence(each, found), _axes_sentence(each)]
        if each.again.changed:
            texts.append(
                f"{each.name}: {each.again.changed} of {plural(each.again.compared, 'cell')} that ran in several "
                f"processes gave other outputs there, from token {each.again.token} on."
            )
    changed = any(change.changed for each in found.precisions for change in each.changes.values())
    counting = ["Tokens are counted from 0; of every output, the first that differs counts."] if changed else []
    return [
        *(text for text in texts if text),
        *_cure(found.precisions),
        *counting,
        *_not_run(found),
        *_missing(found.sweep),
    ]


def _upgrade_sentence(of: Precision, found: Decoding) -> str:
    change, upgrades, releases = of.upgrade.change, of.upgrade.upgrades, found.releases
    if len(releases) < 2:
        return ""
    which = "from release to release" if not found.left_out else "from one release that was run to the next"
    steps = f"{change.changed} of {plural(change.compared, 'step')} {which}"
    left = f"; {plural(change.open, 'step')} could not be compared" if change.open else ""
    if not change.compared:
        return f"{of.name}: no step {which} could be compared."
    if not upgrades:
        seen = "changes no output" if not change.open else "is not seen to change an output"
        return f"{of.name}: upgrading torch {seen} ({steps}, {clean(releases[0])} to {clean(releases[-1])}{left})."
    first = upgrades[0]
    builds = dict.fromkeys(f"{clean(each.build)}{_or_before(each, found)}" for each in upgrades)
    where, *later = builds
    then = f", then in {listed(later, most=6)}" if later else ""
    how = f"at token {first.token}, in {plural(len(first.differences), 'configuration')}"
    earlier = "" if change.token == first.token else f", earliest at token {change.token}"
    whole = f"{steps}{earlier}, median {change.median:g}{left}"
    return f"{of.name}: upgrading torch changes the greedy output, first in {where} ({how}){then}: {whole}."


def _or_before(upgrade: Upgrade, found: Decoding) -> str:
    """What is not known of what lies before it, as the sentence of a transition says it."""
    not_run, silent = found.unknown(upgrade)
    why = [*(["was not run"] if not_run else []), *(["gave no output"] if silent else [])]
    return f" or an earlier release that {' or '.join(why)}" if why else ""


def _not_run(found: Decoding) -> Iterable[str]:
    """The known releases between those that were run."""
    names = [clean(name) for step in pairwise(found.releases) for name in found.left_out.get(step, ())]
    if names:
        yield f"Not run between {clean(found.releases[0])} and {clean(found.releases[-1])}: {listed(names, most=6)}."


def _axes_sentence(of: Precision) -> str:
    changing = [_counted(name, change) for name, change in _axes(of) if change.changed]
    steady = [name for name, change in _axes(of) if change.compared and not change.changed and not change.open]
    open_ones = [f"{name} ({change.open} open)" for name, change in _axes(of) if not change.changed and change.open]
    parts = []
    if changing:
        parts.append(f"{listed(changing, most=9)} {_change_or_changes(changing)} the greedy output")
    if steady:
        parts.append(f"{listed(steady, most=9)} {_change_or_changes(steady)} nothing")
    if open_ones:
        parts.append(f"not decided: {listed(open_ones, most=9)}")
    return f"{of.name}: with the release fixed, {'; '.join(parts)}." if parts else ""


def _change_or_changes(names: Sequence[str]) -> str:
    return "changes" if len(names) == 1 and not names[0].startswith("threads") else "change"


def _axes(of: Precision) -> list[tuple[str, Change]]:
    return [(THINGS[axis], change) for axis, change in of.axes.items()]


def _counted(name: str, change: Change) -> str:
    left = f", {change.open} open" if change.open else ""
    return (
        f"{name} (from token {change.token} on, median {change.median:g}, {change.changed} of {change.compared}{left})"
    )


def _cure(precisions: Sequence[Precision]) -> Iterable[str]:
    """Whether LayerCast stops what 16 bits suffer from."""
    cure = next((each for each in precisions if each.dtype == "layercast"), None)
    narrow = [each for each in precisions if each.dtype in ("bfloat16", "float16")]
    if not narrow:
        return
    if cure is None:
        yield "Whether LayerCast stops it was not seen: there is no output of it."
        return
    suffering = {name for each in narrow for name, change in each.changes.items() if change.changed}
    still = [_counted(name, change) for name, change in cure.changes.items() if change.changed]
    undecided = sorted(name for name in suffering if cure.changes[name].open or not cure.changes[name].compared)
    if still:
        yield f"LayerCast does not stop it all: {listed(still, most=9)} still {_change_or_changes(still)} its output."
    elif not suffering:
        yield "LayerCast has nothing to stop here: no 16-bit output changed."
    elif undecided:
        yield f"LayerCast: no output is seen to change, but comparisons are open for {listed(undecided, most=9)}."
    else:
        yield f"LayerCast stops it: none of its outputs changes by {listed(sorted(suffering), most=9, last='or')}."
    beside = cure.beside_float32
    if beside.compared:
        equal = beside.compared - beside.changed
        left = f"; {beside.open} could not be compared" if beside.open else ""
        yield f"LayerCast gives the same outputs as float32 in {equal:,} of {plural(beside.compared, 'cell')}{left}."


def _missing(of: Sweep) -> Iterable[str]:
    """What gave no output, by reason: it was never counted as equal."""
    total = len(of.configurations) * len(of.builds)
    by_reason: dict[str, list[str]] = {}
    for (_, build), reason in of.missing.items():
        by_reason.setdefault(reason, []).append(build)
    reasons = []
    for reason, builds in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        where = [clean(name) for name in of.builds if name in builds]
        reasons.append(f"{len(builds):,} in {listed(where, most=5)} ({clean(reason)})")
    if reasons:
        have = "has" if len(of.missing) == 1 else "have"
        what = f"{len(of.missing):,} of {plural(total, 'cell')} {have} no output to compare"
        yield f"{what}, and what needs them is open: {'; '.join(reasons)}."
    silent: dict[str, list[str]] = {}
    for instance, reason in of.silent.items():
        silent.setdefault(reason, []).append(clean(instance))
    for reason, instances in silent.items():
        which = listed(instances, most=3)
        yield f"{which} gave no output on any build, and are compared with nothing: {clean(reason)}."
