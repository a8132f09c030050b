"""Discrete events around the same planning: rules are tried here before they are believed.

It has a clock and pods of its own, and calls planning, the model and et_contract.admissions; no
codec, no state and no server. `python -m et_scheduler.simulating` runs it, and benchmarks do.
Nothing of the scheduler that runs imports it.
"""
