"""Experiments of the contract chapter."""
