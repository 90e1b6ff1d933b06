"""From a run folder to tables and statistics."""
