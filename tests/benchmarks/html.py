"""The page with 100,000 cells: how long it takes to make, how big it is, and how soon Chromium shows it.

    python -m tests.benchmarks.html --cells 100000 --limit 2

The time is that of the browser's own clock from the start of the navigation to the paint, and until the matrix has its
cells; each round opens the page in a new context. Exit status 1 when the median of the latter is beyond the limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bisect_torch.report.html import html
from tests.support import chromium
from tests.support.many_cells import many_cells

_MEASURES = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
  const times = {};
  const timed = (name, work) => { const begin = performance.now(); work(); times[name] = performance.now() - begin; };
  const grid = document.getElementById("grid");
  timed("unfold", () => document.getElementById("unfold").click());
  timed("filter", () => document.querySelector("#facets input[type=checkbox]").click());
  done({ paint, ...times, nodes: document.querySelectorAll("*").length });
})))"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--limit", type=float, default=2.0, help="seconds until the matrix is there")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the page there")
    options = parser.parse_args()
    if reason := chromium.missing():
        print(reason, file=sys.stderr)
        return 2
    findings = many_cells(options.cells)
    cells = sum(len(each.points) for each in findings.series)
    begin = time.perf_counter()
    page = html(findings).encode()
    made = time.perf_counter() - begin
    print(f"{cells:,} cells: made in {made:.1f} s, {len(page) / 1e6:.1f} MB, {len(page) / cells:.0f} bytes a cell")
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "page.html"
        path.write_bytes(page)
        shown = _rounds(path, options.rounds)
    print(f"matrix there after {shown:.2f} s (median): {'within' if shown <= options.limit else 'BEYOND'} the limit")
    return int(shown > options.limit)


def _rounds(path: Path, rounds: int) -> float:
    """Median seconds until the matrix has its cells."""
    shown = []
    with chromium.browser() as browser:
        for number in range(rounds):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.add_init_script(_WATCH)
            page.goto(path.as_uri())
            page.wait_for_selector("#grid .cell")
            ready = page.evaluate("matrixShown") / 1000
            found = page.evaluate(_MEASURES)
            shown.append(ready)
            print(
                f"round {number + 1}: first contentful paint {found['paint'] / 1000:.2f} s, matrix {ready:.2f} s, "
                f"unfold all {found['unfold']:.0f} ms, filter {found['filter']:.0f} ms, {found['nodes']:,} elements"
            )
            page.context.close()
    return statistics.median(shown)


_WATCH = """new MutationObserver((_, watcher) => {
  if (document.querySelector("#grid .cell")) {
    watcher.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.matrixShown = performance.now(); }));
  }
}).observe(document, { childList: true, subtree: true });"""


if __name__ == "__main__":
    sys.exit(main())
