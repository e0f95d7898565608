"""Audits of the learners: how much of the promise a record really loses."""
