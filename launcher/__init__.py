"""What runs inside job pods: broker and shim beside the user's command, the agent in workers.

Imports go boot | broker -> shim -> ssh -> agent -> protocol (pyproject.toml, tool.importlinter);
`ranks` stands alone. All but it may use et_contract, the shim hostdiscovery, the broker alone
et_kube; never the operator, which tells them all they need in a document. Nothing here decides who
is a member: that is the operator's.
"""
