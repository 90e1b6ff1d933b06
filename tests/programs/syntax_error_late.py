print("never printed")
x = 'unfinished
