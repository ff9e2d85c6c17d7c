"""``python -m bisect_torch``."""

import sys

from bisect_torch.cli.entry import main

sys.exit(main())
