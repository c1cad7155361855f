"""Cases that runners measure."""
