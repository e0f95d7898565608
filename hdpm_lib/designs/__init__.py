"""Whole markets, each a purchase with its payments and a learner, compared at the same money."""
