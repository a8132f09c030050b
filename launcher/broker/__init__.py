"""The sidecar of the launcher: exec streams to the agents, the list of hosts, the report.

It alone holds the job's token, and alone takes et_kube; beside that it calls protocol, et_contract
and, for the locks of shims, shim.holding. It reads the config that the operator writes, and tells
in the report what it has seen; it makes and deletes no pod, and changes no number of workers.
"""
