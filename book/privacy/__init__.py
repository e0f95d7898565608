"""Experiments of the chapter on privacy: learners with bugs, and the checks that find them."""
