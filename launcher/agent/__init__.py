"""PID 1 of a worker container: it starts, follows and ends the sessions that the broker asks for.

It carries out what `launcher.protocol` decides, and reports no exit that it has not reaped. It has
no token and opens no connection: the broker comes to it by exec. It calls protocol and et_contract.
PID 1 of the launcher takes `spawning` and `catching` from it, `launcher.ssh` processes and loop
(`spawning`, `serving`). Standard library, Python >= 3.7.
"""
