"""discover_hosts: prints the host list that horovodrun asks for. Standard library only."""
