import sys
text = "é"
print(ascii(text), sys.getsizeof(text) > 0)
