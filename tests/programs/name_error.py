import sys
value = 1
print(valu)
