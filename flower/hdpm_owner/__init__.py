"""What an owner of data installs and runs herself: her data, her limits, her random numbers, her ledger.

No other program reads her data. Whoever wants something of her writes to a door, and everything that comes through it
is taken for the word of a stranger: code that a market ships to her machine, too, has only this door.
"""
