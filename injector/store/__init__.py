"""Run folders: where they are made, and how what they hold is read and repaired."""
