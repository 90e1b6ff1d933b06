def fails():
    raise StopIteration("uncaught")


fails()
