import sys

if sys.version_info >= (3,):

    def chosen(value):
        result = value * 2
        return result
else:

    def chosen(value):
        return None


for number in range(3):
    try:

        def inner(x=number):
            return chosen(x)
    finally:
        total = inner()
    print(total)
