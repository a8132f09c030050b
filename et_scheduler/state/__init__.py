"""What is believed of the cluster: synchronous, in memory, no clock, no requests.

Watches and answers to our own writes come in through `ingesting`, the codec reads them into
`store`, and `surveying` makes of that what a pass is given. Of et_kube it takes kinds, tables and
what a watch can tell. It never decides, and never asks the API server.
"""
