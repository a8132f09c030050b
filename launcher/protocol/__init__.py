"""Frames and session state machines without I/O and without a clock, for agent and shim.

Every rule about a session is here: what may follow what, when it has ended, when an agent is
closed. Callers feed in bytes and times and carry out the effects. Standard library, Python >= 3.7.
"""
