"""A real Kubernetes on one machine, for demonstration, tests and benchmarks.

Run it with ``python -m devcluster``; docs/devcluster.md tells what it makes and where that lives.
It imports nothing else of ours, and knows the operator as the image that it builds and the files of
deploy/.
"""
