"""What is decided about a cluster: pure, synchronous, without clock and I/O."""
