"""Tables of papers: the papers' figures beside Heliograph's."""
