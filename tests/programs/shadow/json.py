MINE = __name__
