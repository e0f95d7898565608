"""Experiments of the FL-Market chapter."""
