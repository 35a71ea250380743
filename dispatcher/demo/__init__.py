"""What plays the part of a model without spending anything: a scripted model server, and a scripted worker.

The server lets the real `opencode` and `claude` run unmodified and offline; the worker replaces the whole harness
where even their start-up is too slow. Tests and the demo use both; nothing in the product imports them.
"""
