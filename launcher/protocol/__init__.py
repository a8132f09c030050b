"""Frames and session state machines without I/O. Standard library, Python >= 3.7."""
