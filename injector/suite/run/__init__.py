"""Running a plan: jobs one after the other, their record, and resuming."""
