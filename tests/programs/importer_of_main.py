import __main__

seen = __main__.value, __main__.set_it.__name__, hasattr(__main__, "importer_of_main")
