"""A real Kubernetes on one machine, for demonstration, tests and benchmarks.

Run it with ``python -m devcluster``; docs/devcluster.md tells what it makes and where that lives.
"""
