"""discover_hosts: prints the list of hosts that horovodrun asks for, each second.

It asks the broker's socket, reads the last list from a file where no answer comes in time, and
prints a whole list or fails: half of one would end ranks. It knows et_contract and nothing else.
Standard library, Python >= 3.7.
"""
