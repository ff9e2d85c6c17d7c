"""The code that ran: a script as it is; of a case file the part that matters, as a plain script where it can be one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from bisect_torch.analysis.causes import Cause
from bisect_torch.model import Observation, beside
from bisect_torch.report.excerpt import excerpt
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown.ends import End
from bisect_torch.report.markdown.reproduce import command_of, file_of, is_command, is_script, run_of
from bisect_torch.report.markdown.shortening import Cuts, Detail, shortened
from bisect_torch.report.markdown.syntax import block_text, code, details, fence, html_code
from bisect_torch.report.standalone import Call, standalone
from bisect_torch.report.text import listed

_MOST_READ = 6
_CHANGED = " Characters that cannot be seen, colours and spaces at the ends of lines are not shown as they are."


def code_that_ran(cause: Cause, ends: Sequence[End], findings: Findings, detail: Detail, cuts: Cuts) -> Iterator[str]:
    """Paragraphs with the code of the newer end and of what it imports, or why it is not here."""
    seen = ends[-1].seen
    source = findings.sources.get(seen.case_file_hash)
    if source is None and is_command(seen):
        yield from _of_command(seen, findings, detail, cuts)
    elif source is None:
        yield f"The code is not in the results file: {code(file_of(seen))}, SHA-256 {code(seen.case_file_hash)}."
    elif not detail.code_lines:
        cuts.note("code")
        yield f"The code, {code(file_of(seen))} (SHA-256 {code(seen.case_file_hash)}), is in the results file."
    elif is_script(seen, source):
        yield _block(f"**Code** ({code(file_of(seen))}).", source, detail, cuts)
        yield from _neighbours(seen, findings, detail, cuts)
    else:
        yield from _of_case(cause, ends, source, findings, detail, cuts)
        yield from _neighbours(seen, findings, detail, cuts)


def script_name(ends: Sequence[End], findings: Findings) -> str | None:
    """How the script is called that the report shows and that runs without the tool; None where it shows none."""
    seen = ends[-1].seen
    if is_script(seen, findings.sources.get(seen.case_file_hash)):
        return file_of(seen)
    return f"{seen.case}.py" if _plain_script(ends, findings) is not None else None


def _plain_script(ends: Sequence[End], findings: Findings) -> str | None:
    """A script that does what the case of the newer end did, and needs no more than torch; None where that is not
    certain."""
    seen = ends[-1].seen
    source = findings.sources.get(seen.case_file_hash)
    if source is None or seen.local_modules != "{}":
        return None
    run = run_of(findings, seen)
    as_it_ran = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest() == seen.case_file_hash
    if not as_it_ran or run.get("threads") or run.get("guard"):
        return None
    return standalone(excerpt(source, seen.case).text, _call(ends))


def _call(ends: Sequence[End]) -> Call:
    seen = ends[-1].seen
    false = any(end.seen.returned_false for end in ends)
    return Call(seen.case, json.loads(seen.parameters), seen.device, seed=seen.seed, returned_false=false)


def _of_case(
    cause: Cause, ends: Sequence[End], source: str, findings: Findings, detail: Detail, cuts: Cuts
) -> Iterator[str]:
    seen = ends[-1].seen
    found = excerpt(source, seen.case)
    part = "" if found.whole else ", the part that this case uses"
    script = _plain_script(ends, findings)
    if script is None:
        words = _call(ends).words
        one = f" Run with {code(words)} on {code(seen.device)}." if words else ""
        which = one if len(cause.series) == 1 or not one else f"{one[:-1]}, and so on."
        head = f"**Code** ({code(file_of(seen))}{part}). It needs bisect-torch.{which}"
        yield _block(head, found.text, detail, cuts)
        return
    head = f"**Code** ({code(f'{seen.case}.py')}): what {code(seen.instance)} of {code(file_of(seen))} does."
    yield _block(head, script, detail, cuts)
    case = _block("", found.text, detail, cuts)
    yield details(f"The case as it ran: {html_code(file_of(seen))}{part}", case.strip())


def _of_command(seen: Observation, findings: Findings, detail: Detail, cuts: Cuts) -> Iterator[str]:
    words = f"**Command** {code(command_of(seen, findings))}"
    named = {path: findings.sources[digest] for path, digest in modules_of(seen).items() if digest in findings.sources}
    if not named:
        yield f"{words}; the files that it names are not in this report."
        return
    yield f"{words}."
    for path, text in named.items():
        if detail.code_lines:
            yield _block(f"**Code** ({code(path)}, which the command names).", text, detail, cuts)
        else:
            cuts.note("code")


def _block(head: str, text: str, detail: Detail, cuts: Cuts) -> str:
    """The sentence above it and the code, shortened."""
    kept, cut = shortened(text.strip("\n"), detail.code_lines)
    if cut:
        cuts.note(f"the middle of code longer than {detail.code_lines} lines")
    shown = block_text(kept)
    return f"{head}{'' if shown == kept else _CHANGED}\n\n{fence(shown, 'python')}"


def _neighbours(seen: Observation, findings: Findings, detail: Detail, cuts: Cuts) -> Iterator[str]:
    for path, digest in modules_of(seen).items():
        source = findings.sources.get(digest)
        if source is None:
            yield f"It imports {code(path)}, which is not in the results file (SHA-256 {code(digest)})."
        elif not detail.neighbours:
            cuts.note("the modules that case files import")
        else:
            text, cut = shortened(source, detail.code_lines)
            if cut:
                cuts.note(f"the middle of code longer than {detail.code_lines} lines")
            yield details(f"{html_code(path)}, which it imports", fence(text, "python"))
    read = [(name, file) for name, file in beside(seen.local_modules).read.items() if file.is_input]
    if read:
        names = listed([f"{code(name)} ({file.words})" for name, file in read], most=_MOST_READ)
        yield f"It reads {names} beside itself: not in the results file."


def modules_of(seen: Observation) -> dict[str, str]:
    """Relative path to SHA-256 of what it imported beside itself; of a command, of the files that its words name."""
    return dict(beside(seen.local_modules).modules)
