from joblib import Parallel, delayed


def work(x):
    y = x * x
    return y, __name__


if __name__ == "__main__":
    print(Parallel(n_jobs=2)(delayed(work)(i) for i in range(4)))
    print(Parallel(n_jobs=2, backend="threading")(delayed(work)(i) for i in range(2)))
