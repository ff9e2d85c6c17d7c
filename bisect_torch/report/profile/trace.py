"""A profile as a trace that Perfetto and Chromium's tracing page open: the Trace Event Format, as JSON.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsChNAySU8: every span is a complete event (``X``)
with times in microseconds, every track a thread with a name (``M``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bisect_torch.report.profile.spans import Profile, Span

_PROCESS = 1


def trace_events(profile: Profile) -> Iterator[dict[str, Any]]:
    """The events: names of process and tracks, then the spans of each track in order. Times count from its begin."""
    yield {"ph": "M", "name": "process_name", "pid": _PROCESS, "tid": 0, "args": {"name": "bisect-torch"}}
    for number, (name, spans) in enumerate(profile.tracks.items(), start=1):
        yield {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": number, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": _PROCESS, "tid": number, "args": {"sort_index": number}}
        for span in spans:
            yield _complete(span, number, profile.begin)


def trace_text(profile: Profile) -> str:
    """The trace file, one event on each line."""
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in trace_events(profile))
    return f'{{"displayTimeUnit":"ms","traceEvents":[\n{events}\n]}}\n'


def _complete(span: Span, track: int, begin: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind,
        "pid": _PROCESS,
        "tid": track,
        "ts": (span.begin - begin) / 1000,
        "dur": span.length / 1000,
        "args": dict(span.details),
    }
