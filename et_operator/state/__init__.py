"""What the operator believes about the cluster: synchronous, in memory."""
