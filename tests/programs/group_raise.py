class Odd(BaseException):
    def __str__(self):
        raise ValueError("no str")


raise Odd
