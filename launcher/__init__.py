"""What runs inside job pods: broker and shim beside the user's command, the agent in workers.

The parts share `protocol`, which does no I/O. They know `et_contract` and, the broker alone,
`et_kube`; never the operator, which tells them all they need in a document. Nothing here decides
who is a member: that is the operator's.
"""
