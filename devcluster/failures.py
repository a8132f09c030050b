"""The one exception of this package: any part raises it, and __main__ prints its sentence.

It imports nothing. A defect of ours never becomes one: that ends with its traceback.
"""


class DevclusterError(Exception):
    """Something the user can understand and act on: the message is one clear sentence."""
