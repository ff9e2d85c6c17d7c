"""What supports a finding: boundary, confidence, commits, what else differs; and the values that are wrong."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from bisect_torch.model import Observation, Outcome, Point, Transition, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown.syntax import code, marked, prose
from bisect_torch.report.sentence import Sentence
from bisect_torch.report.sentences import transition_sentence
from bisect_torch.report.text import clean, shorten

COMMIT = "https://github.com/pytorch/pytorch/commit/{}"
_SAID_ELSEWHERE = frozenset(
    {"instances", "signature", "commits", "compare", "git bisect", "confidence", "untested between"}
)


def points(change: Sequence[Transition], findings: Findings, *, told: Container[str]) -> list[str]:
    """One point in Markdown for each fact about a change.

    Args:
        told: Builds of which it is said elsewhere what was seen on them.
    """
    sentence = transition_sentence(change, findings)
    facts = dict(sentence.evidence)
    builds = {"before": sentence.before, "after": sentence.after}
    ends = {label: f"on {prose(build)}" for label, build in builds.items()}
    skipped = _SAID_ELSEWHERE | {label for label, build in builds.items() if build in told}
    return [
        _boundary(change, facts, findings),
        *_commits(change[0], sentence, findings),
        *(
            f"{ends[label]}: {prose(text)}" if label in ends else f"{label}: {marked(text)}"
            for label, text in sentence.evidence
            if label not in skipped
        ),
        *_same_on_both(change[0], findings),
    ]


def boundary(change: Sequence[Transition], findings: Findings) -> str:
    """The first of the :func:`points`: between which builds it lies, and how sure that is."""
    return _boundary(change, dict(transition_sentence(change, findings).evidence), findings)


def _boundary(change: Sequence[Transition], facts: dict[str, str], findings: Findings) -> str:
    first = change[0]
    between = facts.get("untested between")
    left_out = "not run between" in facts
    if between:
        tight = "not neighbours"
    elif left_out:
        tight = "releases between them were not run"
    elif {first.before.build, first.after.build} <= set(findings.known_releases):
        tight = "no release lies between them"
    else:
        tight = "neighbours among the versions that were run"
    text = (
        f"**{prose(first.before.build)} → {prose(first.after.build)}**: {_signature(first.before)} → "
        f"{_signature(first.after)} ({tight})"
    )
    if between:
        text += f"; not judged between them: {prose(between)}"
    return f"{text}. Confidence: {prose(facts['confidence'])}."


def _signature(point: Point) -> str:
    return "API absent" if point.judgement.api_absent else code(point.judgement.signature)


def _commits(transition: Transition, sentence: Sentence, findings: Findings) -> Iterator[str]:
    ends = [
        (name, findings.origin(name), findings.commit(name))
        for name in (transition.before.build, transition.after.build)
    ]
    if not any(commit for _, _, commit in ends):
        return
    links = []
    for _, origin, commit in ends:
        if origin is not None and origin.resolved:
            links.append(f"[`{origin.point[:12]}`]({COMMIT.format(origin.point)})")
        else:
            links.append(code(commit[:12]) if commit else "unknown")
    compare = f", [all commits between them]({sentence.compare})" if sentence.compare else ""
    yield f"commits: {links[0]} → {links[1]}{compare}"


def _same_on_both(transition: Transition, findings: Findings) -> Iterator[str]:
    old, new = (findings.environments.get(end.build) for end in (transition.before, transition.after))
    if old is None or new is None:
        return
    same = []
    if old.python_version == new.python_version:
        same.append(f"Python {old.python_version}")
    if old.cuda == new.cuda:
        same.append(f"CUDA {new.cuda}" if new.cuda else "no CUDA")
    if old.backend == new.backend and old.backend != "pypi":
        same.append(f"backend {old.backend}")
    if same:
        yield f"the same on both: {prose(', '.join(same))}"


def values(seen: Observation) -> list[str]:
    """The numbers of a comparison that came out wrong: criterion, errors, first wrong element. Empty without one."""
    compared = (seen.criterion, seen.mismatch, seen.wrong_elements, seen.nan_mismatches, seen.inf_mismatches)
    return list(_values(seen)) if any(compared) else []


def _values(seen: Observation) -> Iterable[str]:
    if seen.mismatch:
        yield f"differs: {code(seen.mismatch, 400)}"
    if seen.check_path:
        yield f"in {code(seen.check_path)} of the returned value"
    yield from _criterion(seen)
    if seen.rel_error is not None and not seen.nan_mismatches and not seen.inf_mismatches:
        yield (
            f"relative error: {seen.rel_error:.3g} (largest absolute error {_number(seen.max_abs_error)}, largest "
            + (f"absolute value of the reference {_number(seen.reference_max_abs)})")
        )
    if seen.wrong_elements is not None and seen.elements:
        yield f"wrong: {seen.wrong_elements:,} of {seen.elements:,} elements" + (
            f", {prose(seen.dtype)}" if seen.dtype else ""
        )
    for number, what in ((seen.nan_mismatches, "NaN"), (seen.inf_mismatches, "infinite")):
        if number:
            yield f"{what} on one side only: {number:,} elements"
    if seen.first_wrong_index and seen.actual_value and seen.expected_value:
        expected, got = code(seen.expected_value), code(seen.actual_value)
        yield f"first wrong element {code(seen.first_wrong_index)}: expected {expected}, got {got}"
    if seen.explained_by:
        yield f"exactly what this would give: {prose(shorten(clean(seen.explained_by), 300))}"


def _criterion(seen: Observation) -> Iterable[str]:
    if seen.criterion == "exact":
        yield "tolerance: none, every element must be equal to the reference"
    elif seen.criterion == "normwise" and seen.tolerance is not None:
        length = f" (c·√K with K = {seen.reduction_length:,})" if seen.reduction_length else ""
        yield f"tolerance: largest error at most {seen.tolerance:.3g} of the reference's largest value{length}"
    elif seen.criterion == "elementwise":
        yield f"tolerance of each element: {_number(seen.atol)} + {_number(seen.rtol)} × its reference"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def output_of(seen: Observation, verdict: Verdict) -> tuple[str, str]:
    """What shows how it failed, with what it is: the traceback, the stacks, or what it wrote to stderr."""
    if seen.traceback:
        return "Traceback", seen.traceback
    if seen.stack and seen.outcome == Outcome.TIMED_OUT.value:
        return "Stacks when the time was over", seen.stack
    if verdict.bad and verdict is not Verdict.WRONG and seen.stderr_tail and seen.stderr_tail.strip():
        return "End of stderr", seen.stderr_tail
    return "", ""
