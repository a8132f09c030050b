"""What stands first in PYTHONPATH of the ranks of an elastic horovodrun, and nothing else.

It imports nothing of ours, for it runs in the user's own Python, and whatever goes wrong in it must
not end the rank. shim/ranks.py puts it there; agent/ranks.py reads what it tells.
"""
