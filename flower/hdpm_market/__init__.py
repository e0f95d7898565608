"""What ``flwr run`` ships: the market's server, and a client that only carries letters."""
