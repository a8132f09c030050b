"""JSON in and out: the only code that knows the field paths of Kubernetes objects."""
