"""Sequential tests of contracts: the only evidence that may wake somebody."""
