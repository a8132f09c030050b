"""`make demo`: train on a real cluster and show it, one scene after the other.

`scaling`: a job is scaled 2 -> 4 -> 3 -> 2 while it trains. `sharing`: of two jobs in a queue the
first gives workers to the second, and takes them again when that one has ended.
The cluster is the embedded one (devcluster), or with DEMO_CONTEXT=name a context of the user's
kubeconfig; then DEMO_OPERATOR_IMAGE and DEMO_TRAINER_IMAGE name images that cluster can pull.
"""

# The text above is what `python -m examples.demo --help` prints. The demo is a user like any other:
# it calls et, and of the rest what et takes, to show what the API server tells; clusters are made
# by programs that it runs. It knows no decision, and nothing imports it but tests.
