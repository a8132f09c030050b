"""PID 1 of a worker container: it starts, follows and ends the sessions that the broker asks for.

It carries out what `launcher.protocol` decides, and reports no exit that it has not reaped. It has
no token and opens no connection: the broker comes to it by exec. Standard library, Python >= 3.7.
"""
