"""One figure a file: a module here with a `FIGURE` is measured by `make bench`, by its own name."""
