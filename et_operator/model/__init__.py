"""The nouns: frozen data that a decision reads or makes. Standard library only, no I/O."""
