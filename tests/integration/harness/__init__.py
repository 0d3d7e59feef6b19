"""What the integration tests stand on: a private containerd, clients for its API and its CRI, and a leak check."""
