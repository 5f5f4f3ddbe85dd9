"""Integer counts by cell: what a cell is, how decisions are coded into it, how cells are summed."""
