raise GeneratorExit("uncaught")
