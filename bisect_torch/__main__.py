"""``python -m bisect_torch``."""

import sys

from bisect_torch.cli.main import main

sys.exit(main())
