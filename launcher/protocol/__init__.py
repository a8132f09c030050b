"""Frames and session state machines without I/O and without a clock, for agent, shim and broker.

Every rule about a session is here: what may follow what, when it has ended, when an agent is
closed. Callers feed in bytes and times and carry out the effects. It knows et_contract.frames and
nothing else of ours. Standard library, Python >= 3.7.
"""
