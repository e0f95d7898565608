"""Heterogeneous differential privacy and mechanisms: the algorithms behind the book."""
