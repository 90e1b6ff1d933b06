def good():
    return 1


class Bad
    pass
