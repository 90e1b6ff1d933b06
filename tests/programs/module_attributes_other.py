import sys

total = 0
for i in range(3):
    total += i
print(__name__, __file__, __package__, sys.argv, sys.modules[__name__].__dict__ is globals()
      if __name__ in sys.modules else None)
