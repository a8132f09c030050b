"""What is believed of the cluster: synchronous, no clock, no I/O."""
