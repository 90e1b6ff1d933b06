"""What a job of thousands of ranks costs to watch, to collect and to report: docs/scale.md."""
