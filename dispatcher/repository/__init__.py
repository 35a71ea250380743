"""All that is known about git: task copies, what a worker left behind, and how work reaches the target.

No code of a repository ever runs in here: see `git` for how that is kept. Nothing in this room knows why it is asked.
"""
