"""Workers that are reached by ssh: what runs in them, and in the launcher for them.

In the launcher each has an agent as a child of PID 1, which is the agent of launcher/agent with ssh
in the place of its processes; it calls agent, protocol and et_contract. Standard library, Python >=
3.7. In the workers: sh, and no Python.
"""
