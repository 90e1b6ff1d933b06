import warnings

import neighbour_warns


def helper(level):
    warnings.warn("old", DeprecationWarning, stacklevel=level)


x = 3
print(x is 3, "\d", (1, 2) is ())
helper(1)
helper(2)
warnings.warn("visible here")
warnings.warn("visible here")
for i in range(2):
    warnings.warn("in a loop", UserWarning, stacklevel=1)
neighbour_warns.old_api()
neighbour_warns.old_api()
assert (x, "always true")
warnings.simplefilter("error")
try:
    helper(2)
except DeprecationWarning as error:
    print(repr(error))
warnings.warn("fatal")
