"""`python -m dispatcher.cli`: the same as the console script, for where that is not on PATH."""

from __future__ import annotations

import sys

from dispatcher.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
