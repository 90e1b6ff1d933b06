import torch
import torch.multiprocessing as mp


def worker(rank, world, value):
    total = value + rank
    print("rank", rank, world, total, __name__, flush=True) if rank == 0 else None
    if int(value) == 9:
        raise ValueError(rank)


if __name__ == "__main__":
    mp.spawn(worker, args=(2, torch.tensor(1)), nprocs=2)
    print("done")
    try:
        mp.spawn(worker, args=(2, torch.tensor(9)), nprocs=1)
    except mp.ProcessRaisedException as error:
        print(type(error).__name__, "ValueError: 0" in str(error))
