"""What stands in for ssh in the launcher, and PID 1 there. Standard library, Python >= 3.7."""
