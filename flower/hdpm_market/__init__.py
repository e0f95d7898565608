"""The market's side, sent to SuperLink and SuperNodes by ``flwr run``: a server, and a client that only carries letters."""
