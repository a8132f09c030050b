"""JSON of the API server to the model, and admissions and queues' statuses back."""
