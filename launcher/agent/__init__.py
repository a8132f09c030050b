"""PID 1 of a worker container. Standard library, Python >= 3.7."""
