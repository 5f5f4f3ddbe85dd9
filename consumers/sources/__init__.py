"""Record sources: where messages come from, all behind one port."""
