"""What is decided about a cluster: one pass over all jobs, in the order that `passing` has.

Pure and synchronous: no clock, no chance, no JSON, no I/O; `now` is handed in. It calls the model
and et_contract.admissions, and nothing else of ours, so that a recorded pass can be decided again
and a simulation runs on the same rules.
"""
