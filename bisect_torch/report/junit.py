"""JUnit XML for CI: a suite for each build, a test for each cell.

``wrong`` is a failure; an exception, a crash, a timeout and running out of memory are errors; a flaky cell is a failure
of type ``flaky``. What says nothing about the build (skip, broken, uninstallable, infra, undecidable, not run) is
skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from bisect_torch.analysis import judge
from bisect_torch.model import Observation, Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.seen import seen
from bisect_torch.report.text import clean
from bisect_torch.report.unjudged import are_local, hint, with_hint

_KINDS = ("failure", "error", "skipped")


def junit(findings: Findings) -> str:
    """The document, as Jenkins and others read it, with what a case wrote cleaned of what XML does not allow."""
    root = ElementTree.Element("testsuites", name="bisect-torch")
    for place, build in enumerate(findings.build_names):
        suite = ElementTree.SubElement(root, "testsuite", name=f"torch {clean(build)}")
        _properties(suite, build, findings)
        for series in findings.series:
            _test(suite, series, series.points[place], build, findings)
        _count(suite)
    _count(root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _properties(suite: ElementTree.Element, build: str, findings: Findings) -> None:
    environment = findings.environments.get(build)
    known = {
        "torch": environment and environment.torch_version,
        "git_commit": findings.commit(build),
        "python": environment and environment.python_version,
        "cuda": environment and environment.cuda,
        "backend": environment and environment.backend,
        "lock_hash": environment and environment.lock_hash,
    }
    told = {name: clean(value) for name, value in known.items() if value}
    if told:
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in told.items():
            ElementTree.SubElement(properties, "property", name=name, value=value)


def _test(suite: ElementTree.Element, series: Series, point: Point | None, build: str, findings: Findings) -> None:
    name = clean(series.instance) + (f" on {clean(series.device)}" if findings.several_devices else "")
    test = ElementTree.SubElement(suite, "testcase", classname=clean(series.case_file), name=name)
    test.set("time", f"{(point.elapsed_s if point is not None else None) or 0.0:.3f}")
    kind, type_, message = _outcome(series, point, findings)
    if kind is None:
        return
    result = ElementTree.SubElement(test, kind, type=type_, message=message)
    if point is not None and kind != "skipped":
        result.text = _evidence(findings.observed(series, build), point)


def _outcome(series: Series, point: Point | None, findings: Findings) -> tuple[str | None, str, str]:
    """Element, type and message."""
    if point is None:
        return "skipped", "not run", "not run"
    judgement = point.judgement
    if point.flaky:
        counts = ", ".join(f"{clean(name)} in {number}" for name, number in point.counts.items())
        return "failure", "flaky", f"flaky: {counts} of {sum(point.counts.values())}"
    if judgement.verdict is Verdict.OK:
        return None, "", ""
    if not judgement.verdict.bad:
        what_to_do = hint(judgement.verdict, judgement.reason, local=are_local(findings, (point.build,)))
        said = with_hint(judgement.reason, what_to_do) or judgement.verdict.value
        return "skipped", judgement.verdict.value, clean(said)
    what = seen([(series, point)], findings)
    message = f"{clean(judgement.signature)}{': ' if what else ''}{what}"
    absent = "API absent: " if judgement.api_absent else ""
    kind = "failure" if judgement.verdict is Verdict.WRONG else "error"
    return kind, clean(judgement.signature), absent + message


def _evidence(observations: Sequence[Observation], point: Point) -> str:
    """Traceback, stacks or the end of stderr of the first repeat that gave this answer, and the end of stdout."""
    fitting = [each for each in observations if judge(each).signature == point.judgement.signature]
    if not fitting:
        return ""
    first = fitting[0]
    failed = first.traceback or first.stack or first.stderr_tail or ""
    printed = f"--- stdout\n{first.stdout_tail}" if first.stdout_tail and first.stdout_tail.strip() else ""
    text = "\n".join(part.strip("\n") for part in (failed, printed) if part)
    return "\n".join("\t".join(map(clean, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n"))


def _count(element: ElementTree.Element) -> None:
    tests = list(element.iter("testcase"))
    element.set("tests", str(len(tests)))
    for kind, name in zip(_KINDS, ("failures", "errors", "skipped"), strict=True):
        element.set(name, str(sum(test.find(kind) is not None for test in tests)))
    element.set("time", f"{sum(float(test.get('time', 0)) for test in tests):.3f}")
