import os
import sys

import neighbour
from neighbour_package import sub

print(neighbour.VALUE, neighbour.__name__, sub.where(), os.path.basename(sys.path[0]))
