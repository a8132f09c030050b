"""The one exception of this package."""


class DevclusterError(Exception):
    """Something the user can understand and act on: the message is one clear sentence."""
