"""Where a command's time went: spans made of its events, a trace file of them, a short summary."""

from bisect_torch.report.profile.collecting import Collector
from bisect_torch.report.profile.spans import Profile, Span
from bisect_torch.report.profile.summary import summary_lines
from bisect_torch.report.profile.trace import trace_text

__all__ = ["Collector", "Profile", "Span", "summary_lines", "trace_text"]
