"""Plans become requests: the one executor, the keys that it makes, what it checks of the answers.

It calls the codec, the model and et_kube, and decides nothing: what to do, and in which order, is
in the plan. Nothing else writes to objects of jobs; Events and the lease are written by et_process.
What an answer does to what is believed is said in `believing`, above it.
"""
