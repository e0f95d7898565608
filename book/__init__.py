"""What only the book needs: its ledger, plots and data sets, and beside each page the experiments
that it runs.
"""
