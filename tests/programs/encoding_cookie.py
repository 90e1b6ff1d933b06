# -*- coding: latin-1 -*-
text = "café"
print(ascii(text), len(text))
raise ValueError(ascii(text))
