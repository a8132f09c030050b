"""The edge to the API server: one session, requests and their answers, watches, exec, the lease.

Its errors say what the caller should do. It knows Kubernetes, and nothing of jobs, workers or what
anybody decides; of time it knows what a wait needs (clock, backoff, racing).
"""

__version__ = "0.1.0"
"""The version's one home.

pyproject.toml, towncrier, `--version` and the User-Agent take it from here: the operator's image
has this package and no metadata. A test holds the Helm chart to it.
"""
