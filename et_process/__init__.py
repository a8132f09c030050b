"""What a process of ours runs on, whatever it decides: queue, lanes, supervision, pages, Events.

It knows the edge to the API server, and nothing of jobs, queues of jobs, workers.
"""
