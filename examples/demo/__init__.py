"""`make demo`: train on a real cluster and show it, one scene after the other.

`scaling`: a job is scaled 2 -> 4 -> 3 -> 2 while it trains. `sharing`: of two jobs in a queue the
first gives workers to the second, and takes them again when that one has ended.
The cluster is the embedded one (devcluster), or with DEMO_CONTEXT=name a context of the user's
kubeconfig; then DEMO_OPERATOR_IMAGE and DEMO_TRAINER_IMAGE name images that cluster can pull.
"""
