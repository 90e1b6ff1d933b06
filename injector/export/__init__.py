"""What a run knows, in other tools' own formats: one module a tool, all made of :mod:`.content`."""
