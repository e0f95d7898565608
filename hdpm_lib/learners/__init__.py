"""Private learners: data and a privacy loss for each seller in, an estimate out."""
