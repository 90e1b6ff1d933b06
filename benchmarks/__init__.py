"""Third-party training programs, each named by a pin, and what probing costs. Not in the wheel."""
