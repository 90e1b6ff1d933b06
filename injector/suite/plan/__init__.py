"""From a suite and a machine to the jobs that a run starts."""
