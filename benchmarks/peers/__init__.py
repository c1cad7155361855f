"""Programs that measure other libraries in turns with Heliograph."""
