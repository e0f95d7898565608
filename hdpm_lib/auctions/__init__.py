"""FL-Market: bids and a budget in, privacy losses of gradients and payments out."""
