"""Workers that are reached by ssh: what runs in them, and in the launcher for them.

In the launcher: standard library, Python >= 3.7. In the workers: sh, and no Python.
"""
