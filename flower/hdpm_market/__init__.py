"""What ``flwr run`` sends to SuperLink and SuperNodes: the market's server, and a client that only
carries letters.
"""
