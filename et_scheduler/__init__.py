"""Shares a cluster between training jobs: how many workers each may have, when, and where."""
