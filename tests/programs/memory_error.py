def fail():
    raise MemoryError


try:
    fail()
except MemoryError as error:
    print(repr(error))
x = "a" * (2**62)
