"""Markets for privacy: costs in, privacy losses and payments out."""
