"""What runs in the launcher's own container: PID 1, and what stands there for ssh and launchers.

Where torchrun runs in workers, `torchrun` and `joining` run there too. Of ours it speaks to the
broker alone, by a socket; it must change nothing of the user's command but its environment and, for
launchers that need it, options. It calls protocol, agent, ssh, hostdiscovery and et_contract; the
broker takes `holding` from it and nothing else. Standard library, Python >= 3.7.
"""
