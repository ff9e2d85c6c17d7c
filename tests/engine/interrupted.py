"""The tool, interrupted while it writes the results file: ``python -m tests.engine.interrupted SIGNALS run …``.

With two signals the writing would go on for minutes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from bisect_torch.results import parquet

write_table = parquet.write_table
signals = int(sys.argv[1])


def writing(*arguments: Any, **named: Any) -> None:
    print("interrupted", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    if signals == 2:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(300)
    write_table(*arguments, **named)


parquet.write_table = writing

if __name__ == "__main__":
    from bisect_torch.cli.main import main

    del sys.argv[1]
    sys.exit(main())
