"""Decisions become one patch a job, statuses of queues, Events; or, observed, words in a log.

It calls codec, model, state, the metrics and et_kube; what the server answers goes into the store
at once. It writes `status.admission` of jobs and the statuses of queues, and nothing else, and
decides about nobody: a write that is refused holds up those that rest on it.
"""
