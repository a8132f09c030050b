"""The nouns: frozen data that a decision reads or makes, and names and texts that are built of it.

Beside the standard library they use words of et_contract (states, names of pods) and nouns of
et_kube (kinds and references, Events, notices). No I/O, no clock, no decision; what comes from JSON
is made by the codec, which checks it.
"""
