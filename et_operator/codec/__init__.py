"""JSON in and out: the only code that knows the field paths of Kubernetes objects.

What comes in is checked and bounded here; what cannot be read becomes an error that names its
field. It calls the model alone.
"""
