"""What operator, launcher and host discovery promise each other: documents, frames, names, paths.

It imports nothing but itself and the standard library. All of it but `documents` runs in user
containers too, on Python >= 3.7. It holds formats and words, never a decision and never a wait.
"""
