"""Running a plan: jobs one after the other, their record, and going on where somebody stopped."""
