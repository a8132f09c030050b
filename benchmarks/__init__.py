"""Measurements of the operator beside the bare platform; `make bench` writes RESULTS.md.

`figures` has what is measured, this package what they are measured with, `commands` the users'
programs that run in pods. They stand above all the rest and may call any of it, also a planner or a
store alone; nothing of the product imports them.
"""
