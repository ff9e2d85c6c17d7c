"""Scripts that surely never import torch: whatever they do, no build makes a difference. Pure."""

from __future__ import annotations

import ast
import functools
import re
import sys

from bisect_torch.analysis.columns import telling
from bisect_torch.analysis.python_text import tree_of
from bisect_torch.model import Series, beside
from bisect_torch.report.excerpt import imported_roots
from bisect_torch.report.files import COMMANDS
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, listed

_MOST_NAMES = 4
_FACTS = ("case_file", "case_file_hash", "local_modules")
_MAY_REACH_TORCH = re.compile(
    r"torch|import_|\b(?:importlib|runpy|subprocess|multiprocessing|ctypes|pkgutil|pickle|compile|eval|exec\w*|system"
    r"|popen|spawn\w*|posix_spawn\w*|builtins)\b",
    re.IGNORECASE,
)
"""Where a text holds any of this, torch may be imported or another program started."""


def without_torch_words(findings: Findings) -> list[str]:
    """A sentence for those that went alike on every build, and one for those that did not."""
    texts = {digest for digest, source in findings.sources.items() if never_imports_torch(source)}
    if not texts:
        return []
    files: dict[str, bool] = {}
    for each in telling(findings.observations, _FACTS):
        alone = each.case_file_hash in texts and not beside(each.local_modules).modules
        files[each.case_file] = files.get(each.case_file, each.case_file != COMMANDS) and alone
    alike: list[str] = []
    differing: list[str] = []
    for series in findings.series:
        answers = _answers(series) if files.get(series.case_file) else set()
        if answers:
            (differing if len(answers) > 1 else alike).append(clean(findings.name_of(series)))
    return [
        f"{listed(names, most=_MOST_NAMES)} {'does' if len(names) == 1 else 'do'} not import torch: {what}."
        for names, what in ((alike, "every build gives the same"), (differing, "what differs is not torch's"))
        if names
    ]


def _answers(series: Series) -> set[str]:
    """What its builds gave where they were judged; a flaky one gave several."""
    judged = [point for point in series.points if point is not None and point.judgement.verdict.judged]
    return {signature for point in judged for signature in (point.judgement.signature, *point.counts)}


@functools.lru_cache(maxsize=4096)
def never_imports_torch(source: str) -> bool:
    """Whether a script imports nothing but the standard library, and cannot reach torch by another way."""
    if _MAY_REACH_TORCH.search(source):
        return False
    tree = tree_of(source)
    if tree is None:
        return False
    imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return all(root in sys.stdlib_module_names for node in imports for root in imported_roots(node))
