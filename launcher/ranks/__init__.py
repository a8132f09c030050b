"""What stands first in PYTHONPATH of the ranks of an elastic horovodrun, and nothing else."""
