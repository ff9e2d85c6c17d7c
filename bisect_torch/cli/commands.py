"""The commands: what each is called, where it lies, and how it is told in one line."""

from __future__ import annotations

PROGRAM = "bisect-torch"

Command = tuple[str, str, str, bool]
"""Name, module, one line of help, whether words after ``--`` make sense."""

COMMANDS: tuple[Command, ...] = (
    ("run", "bisect_torch.cli.run", "run cases on every release and say what changed where", True),
    ("bisect", "bisect_torch.cli.bisect", "find the release that changed it, with few installs", True),
    ("recheck", "bisect_torch.cli.recheck", "does a new build fix what was bad in earlier results?", False),
    ("verify", "bisect_torch.cli.verify", "run the claims of somebody's results here", False),
    ("watch", "bisect_torch.cli.watch", "run a file again on every save, on workers that stay warm", False),
    ("new", "bisect_torch.cli.new", "a script or case file from the text of a bug report", False),
    ("judge", "bisect_torch.cli.judge", "judge results again with other tolerances, without running", False),
    ("report", "bisect_torch.cli.report", "a bug report, a page, a picture or data from results", False),
    ("compare", "bisect_torch.cli.compare", "two machines, devices or days: what differs, what is equal", False),
    ("merge", "bisect_torch.cli.merge", "one results file from several", False),
    ("attribute", "bisect_torch.cli.attribute", "torch, or one of its dependencies?", False),
    ("decoding", "bisect_torch.cli.decoding", "what changes the greedy output of a language model", False),
    ("doctor", "bisect_torch.cli.doctor", "what is missing on this machine, and how to mend it", False),
    ("completion", "bisect_torch.cli.completion", "let the shell complete commands, options and names", False),
    ("releases", "bisect_torch.cli.releases", "list the torch builds that can be installed here", False),
    ("envs", "bisect_torch.cli.envs", "build, list, check and remove the environments of releases", False),
)

EXAMPLES = """\
examples:
  bisect-torch doctor                                     is all here that a run needs?
  bisect-torch run                                        the shipped cases on every release since 2.4.1
  bisect-torch run repro.py --from 2.6.0 --to 2.9.1       your script, from the last good to the first bad release
  bisect-torch run cases.py -k bmm --versions 2.8.0,2.9.1,/opt/venv/bin/python
  bisect-torch run --from 2.6.0 -- python train.py --steps 3
  bisect-torch bisect repro.py --good 2.6.0 --bad 2.9.0   which release broke it, with few installs
  bisect-torch judge results.parquet --rtol 1e-3 --atol 1e-5    other tolerances, no re-run
  bisect-torch report results.parquet repro               a bug report for GitHub; also html, png, json, csv, junit
  bisect-torch attribute results.parquet repro            torch, or one of its dependencies?

exit codes: 0 all good at the newest build, 1 something is bad there, 2 usage, 3 could not be judged, 130 interrupted
next: bisect-torch run --help    each command has examples of its own
"""
