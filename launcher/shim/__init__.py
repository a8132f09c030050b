"""What runs in the launcher's own container: PID 1, and what stands there for ssh and launchers.

It speaks to the broker by a socket and to nobody else; it must change nothing of the user's command
but its environment and, for launchers that need it, options. Standard library, Python >= 3.7.
"""
