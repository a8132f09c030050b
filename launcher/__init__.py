"""What runs inside job pods: the agent in workers, shim and broker in the launcher."""
