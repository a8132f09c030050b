"""The decisions: pure, synchronous functions from a snapshot to a plan.

No clock, no logger, no I/O; `now` is handed in. They read the model and write a Draft; of the codec
and et_kube they take formats and names of kinds, of et_contract what the broker is told. They never
ask anybody, and never see the store.
"""
