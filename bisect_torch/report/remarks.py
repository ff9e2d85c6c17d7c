"""What no verdict tells, a sentence each."""

from __future__ import annotations

from bisect_torch.report.findings import Findings
from bisect_torch.report.overlooked import overlooked_words
from bisect_torch.report.printed import printed_words
from bisect_torch.report.without_torch import without_torch_words


def remarks(findings: Findings) -> list[str]:
    """Exceptions that were ignored, further tests of a script, files passed over, other output on another build,
    scripts without torch."""
    return [*overlooked_words(findings), *printed_words(findings), *without_torch_words(findings)]
