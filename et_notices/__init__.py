"""Brings a cloud's word to its node: that the instance is taken back, and when.

A program of its own, one a node. It asks the metadata service of the cloud that the node is in, and
writes what that says of the node's end into the node's annotations: nothing else, and nothing of
another node. It knows nothing of jobs; operator and et-scheduler read the node.
"""
