"""One small process per attempt: it starts the worker, watches it, ends its whole tree and writes the exit record.

    __main__.py     FOLDER -> the process
    forkserver.py   forks one for each attempt of a run, warm
    forks.py        the run's side of that
    supervise.py    its loop
    spawn.py        fork and exec          clocks.py     how long silence may last (pure)
    tree.py         find and end a tree    reactions.py  what a signal of the harness leads to (pure)
    processes.py    /proc                  activity.py   does the tree use CPU or write
    cgroup.py       a group per worker     follow.py     output files, read as they grow
    kernel.py       calls that Python has no function for
    capping.py      output files, capped   plain_json.py JSON without the cost of `json`
    listener.py     signals of the harness -> clocks, facts, reasons
    attempt_files.py   names, locks, durable writes
    spec.py         attempt.json and exit.json, for those who start and settle attempts
    client.py       launch, wait, send, end_leftovers
    transcript.py   the lines of a capped file

The process has to live when the dispatcher dies and may cost a start for every attempt, so what it imports before the
worker runs is counted in milliseconds: no dataclasses, enum, re, json or subprocess (they quadruple the start).
The translators of the harness are loaded when the worker has lived long enough to need them.
"""
