"""One cloud a file: which questions it is asked, and what its answers say. No I/O, no clock."""
