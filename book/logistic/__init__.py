"""Experiments of the logistic chapter."""
