"""The nouns of sharing a cluster: frozen, amounts and times as integers.

What a pass is given (cluster, queues, jobs, rules) and what it decides. Beside the standard library
they use et_contract.admissions alone, and no JSON: that is the codec's.
"""
