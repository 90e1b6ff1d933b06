import sys

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        info = get_worker_info()
        value = torch.tensor([float(index), float(info.id)])
        return value


def collate(items):
    batch = torch.stack(items)
    return batch


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(
        Numbers(), 2, shuffle=True, num_workers=2, collate_fn=collate,
        multiprocessing_context=sys.argv[1],
    )
    for batch in loader:
        print(batch.tolist())
