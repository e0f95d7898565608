"""Experiments of the ridge chapter."""
