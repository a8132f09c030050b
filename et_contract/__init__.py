"""What the programs promise each other: documents, admissions, frames, names of pods, paths.

It imports nothing but itself and the standard library. All of it but `documents`, `admissions`,
`pods` and `tails` runs in user containers too, on Python >= 3.7. It holds formats and words, never
a decision and never a wait.
"""
