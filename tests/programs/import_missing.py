try:
    import there_is_no_such_module
except ImportError as error:
    print(repr(error), error.name)
try:
    from neighbour import nothing_there
except ImportError as error:
    print(error.name, error.msg.replace(error.path, "PATH"))
import there_is_no_such_module.sub
