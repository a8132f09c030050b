"""The nouns of sharing a cluster: frozen, integers only."""
