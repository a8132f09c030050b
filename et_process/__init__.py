"""What a process of ours runs on, whatever it decides: queue, lanes, supervision, pages, Events.

Operator and scheduler are assembled from it, and it has what both share: settings, watches, the
lease, metrics. It calls et_kube, and of et_contract the texts alone; it knows nothing of jobs,
queues of jobs, workers, and never what a pass is about.
"""
