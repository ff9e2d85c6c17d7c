"""What a line of ``bisect`` asks for: the case, the ends of the search, the builds between them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.run_request import build_request, discover
from bisect_torch.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from bisect_torch.analysis.question import Question
    from bisect_torch.engine.search.request import BisectRequest, Scope
    from bisect_torch.model import Build
    from bisect_torch.releases.nightly_words import NightlyWord
    from bisect_torch.releases.selection import Selection


def build_bisection(args: argparse.Namespace) -> BisectRequest:
    """Everything that can be refused is refused here, before anything is downloaded.

    Raises:
        BisectTorchError: A file, a case, an end of the range or an option cannot be used.
    """
    from bisect_torch.engine.search.request import BisectRequest
    from bisect_torch.releases.choosing import BETWEEN

    _take_case(args)
    discovered = discover(args)
    notes: list[str] = []
    searched = True

    def unknown(name: str, error: InfrastructureError) -> None:
        nonlocal searched
        if name != BETWEEN:  # an end
            raise error
        searched = False
        notes.append(f"{name} are not searched: {error.message}")

    run = build_request(
        args,
        choice=_choice(args),
        discovered=discovered,
        scope=lambda builds: _scope(args, builds),
        in_groups=True,
        unknown=unknown,
    )
    if run.plan.budget is not None and args.speculate:
        notes.append("no environment is made ahead: the disk is short")
    return BisectRequest(
        run=dataclasses.replace(run, plan=dataclasses.replace(run.plan, notes=(*run.plan.notes, *notes))),
        question=_question(args, run.builds),
        confidence=args.confidence,
        flaky=args.flaky,
        flaky_budget_s=args.flaky_budget,
        ahead=0 if run.plan.budget is not None else args.speculate,
        judge_absent=args.absent == "judge",
        finer=args.nightly is not None and searched,
    )


def _scope(args: argparse.Namespace, builds: tuple[Build, ...]) -> Scope:
    """The builds from end to end, and those that are judged first, should the ends be as they are said to be."""
    from bisect_torch.analysis.question import Probe
    from bisect_torch.analysis.search import ahead, most_probes, step
    from bisect_torch.engine.search.request import Scope

    good, bad = (None if end is None else _find(end, builds) for end in (args.good, args.bad))
    if good is not None and good == bad:
        raise UsageError(
            f"--good and --bad name the same build, {good}: there is nothing to search between them",
            hint="name two builds: --good 2.6.0 --bad 2.9.0",
        )
    if good is not None and bad is not None:
        names = [build.name for build in builds]
        first, last = sorted((names.index(good), names.index(bad)))
        builds = builds[first : last + 1]
    question = _question(args, builds)
    begin = step(question, {})
    assert isinstance(begin, Probe), "nothing is known yet"
    first_ones = frozenset((*begin.builds, *ahead(question, {}, begin, 1)))
    return Scope(builds, first_ones, most_probes(question))


def _question(args: argparse.Namespace, builds: Sequence[Build]) -> Question:
    from bisect_torch.analysis.question import Question
    from bisect_torch.model import BuildKind

    good, bad = (None if end is None else _find(end, builds) for end in (args.good, args.bad))
    nightly = (build.name for build in builds if args.nightly is not None and build.kind is BuildKind.NIGHTLY)
    return Question(
        tuple(build.name for build in builds), good=good, bad=bad, find_fix=args.find_fix, fine=frozenset(nightly)
    )


def _take_case(args: argparse.Namespace) -> None:
    """Make of CASE what ``run`` understands."""
    words = args.command_words or []
    suite = args.pytest_words is not None
    if args.case is None and not words and not suite and _is_no_day(args.nightly):
        args.case, args.nightly = args.nightly, "latest"  # `--nightly repro.py`: no day, but what is searched for
    if (args.case is not None) + bool(words) + suite > 1:
        raise UsageError(
            "bisect takes one of these: a case, a command after --, a suite after --pytest",
            hint="leave out what is not searched for",
        )
    if args.case is None and not words and not suite:
        raise UsageError("what to search for is missing", hint="bisect-torch bisect repro.py --good 2.6.0 --bad 2.9.0")
    args.files = [Path(args.case)] if args.case is not None else []
    args.suite, args.repeat = (), 1


def _is_no_day(text: str | None) -> bool:
    from bisect_torch.releases.nightly_words import named_word

    return text is not None and text != "latest" and named_word(text) is None


def _choice(args: argparse.Namespace) -> Selection:
    """The builds that the search may judge, as far as the options tell."""
    from packaging.version import InvalidVersion, Version

    from bisect_torch.releases.selection import Selection, is_path

    ends = [end for end in (args.good, args.bad) if end is not None]
    if not ends:
        raise UsageError(
            "the search needs an end: --good, --bad or both",
            hint=f"--good {args.first or '2.6.0'} --bad {args.last or '2.9.0'} in place of --from and --to"
            if args.first or args.last
            else "for example --good 2.6.0 --bad 2.9.0; with --bad 2.9.0 alone it walks back to one that is good",
        )
    first, last = args.first, args.last
    nightly = _nightly(args)
    if len(ends) == 2 and (first or last):
        raise UsageError(
            "--from and --to say how far to go from one end; here both are named", hint="leave out --from and --to"
        )
    released = [end for end in ends if not is_path(end)]
    if len(ends) == 1:
        newer = (args.good is None) == args.find_fix
        if released:
            first, last = (ends[0], last or _newest_of(nightly)) if newer else (first, ends[0])
    elif len(released) == 2:
        try:
            first, last = sorted(released, key=Version)
        except InvalidVersion:
            first, last = released  # a nightly, put in order once it is found; else refused by name
    exclude = tuple(dict.fromkeys(name for names in args.exclude for name in names))
    return Selection(
        first=first,
        last=last,
        versions=tuple(ends),
        exclude=exclude,
        minor_only=args.minor_only,
        inside=nightly,
        either_way=True,
    )


def _nightly(args: argparse.Namespace) -> NightlyWord | None:
    from bisect_torch.releases.nightly_words import NIGHTLY, nightly_word

    word = None if args.nightly is None else nightly_word(args.nightly)
    if word is not None and word.channel != NIGHTLY:
        raise UsageError(
            f"--nightly {args.nightly}: no nightly build", hint="a release candidate lies in no gap between releases"
        )
    return word


def _newest_of(word: NightlyWord | None) -> str | None:
    """How the newest nightly build that may take part is named; None where none may."""
    if word is None:
        return None
    last = word.last or (None if word.span else word.first)
    return "nightly" if last is None else last.isoformat()


def _find(end: str, builds: Sequence[Build]) -> str:
    from bisect_torch.releases.selection import named_among

    build = named_among(end, builds)
    if build is not None:
        return build.name
    raise UsageError(f"{end} is an end of the range, and does not take part", hint="--exclude names it")
