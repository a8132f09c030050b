"""JSON of the API server becomes the model; admissions and queues' statuses become JSON again.

What others may have written is bounded here, and a ValueError names what is wrong. Of pods and
nodes a few words are kept; what a pass was given becomes a line of a file, and is read from it. It
calls the model, formats of et_contract and what et_kube reads for everybody (amounts, shapes,
notices); it asks nobody and decides nothing.
"""
