"""One figure a file: a module here with a `FIGURE` is measured by `make bench`, by its own name.

It says what is measured and how that is told, and calls what `benchmarks` has around it, or what it
measures. A figure knows no other figure.
"""
