"""What stands in for a cluster, its server and its time, for tests and benchmarks alike.

In memory, one step at a time: `cluster` is an API server (`kinds`, `schemas`, `selectors`,
`documents` and `histories` are what it knows), on which `kubelet`, `broker` and `carriers` act;
`clients` is the seam of et_kube/api.py before it, and `clock` a time that is told to pass. On the
loopback interface, with the launcher's own processes: `apiserver`, and `podless`, a whole job with
an agent for each worker (or `agents`, without processes) and a broker (`broker_program`).

A fake may use the formats of et_contract, the edge et_kube, the nouns of et_operator.model, and run
what the launcher really runs. It never imports what decides: it answers as a real server or kubelet
was seen to, which tests/contract holds for `cluster` and `clients`, and plays broker and operator
by what et_contract promises of them. Nothing of the product imports it, it imports no test, and it
is in no wheel and no image.
"""
