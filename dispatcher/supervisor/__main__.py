"""`python -I -S -X utf8 .../supervisor/__main__.py FOLDER [LOCK-FD [VARIABLE...]]`: one supervisor.
`python -I -S -X utf8 .../supervisor/__main__.py --fork FD LOGS`: the process that forks supervisors for one run.

Isolated and without `site`, because it may be started for every attempt; the package root is all it needs on the path.
VARIABLE: names that this interpreter may have added to its environment and that the worker must not get.
"""

import os
import sys


def run() -> int:
    sys.path.insert(0, __file__.rsplit("/", 3)[0])
    if sys.argv[1] == "--fork":
        from dispatcher.supervisor.forkserver import serve

        serve(int(sys.argv[2]))
        return 0
    from dispatcher.supervisor.supervise import main

    folder, *rest = sys.argv[1:]
    return main(folder, int(rest[0]) if rest else None, rest[1:])


if __name__ == "__main__":
    os._exit(run())  # the record is written and synced; taking the interpreter apart would cost a fifth of all
