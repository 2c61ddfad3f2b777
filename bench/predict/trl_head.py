#!/usr/bin/env python3
"""Bytes that the loss of trl's SFTTrainer holds at its peak: usage: trl_head.py, in an environment with trl 1.15 or newer

Runs trl/kernels/chunked_logprob.py forward and backward on tensors without data, in bfloat16, and counts living storages beside the
weight. Triton's kernels and the products into float32, which write in place on a GPU, do nothing here. Prints MiB by trl's code and by
the stack `transformers-trl` of config/stacks.yaml.
"""
import contextlib
import types

import torch
import trl.kernels.chunked_logprob as head
import trl.trainer.utils
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

HIDDEN, VOCABULARY, TILE_ROWS, TILE_COLUMNS = 4096, 128256, 4096, 32768


class NoKernel:
    def __getitem__(self, grid):
        return lambda *tensors, **options: None


class Peak(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.living, self.bytes = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for each in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                self.living.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        self.living = {key: value for key, value in self.living.items() if not value[0].expired()}
        self.bytes = max(self.bytes, sum(size for _, size in self.living.values()))
        return out


def peak(rows, trained):
    hidden = torch.empty(rows, HIDDEN, dtype=torch.bfloat16, device="meta", requires_grad=True)
    weight = torch.empty(VOCABULARY, HIDDEN, dtype=torch.bfloat16, device="meta", requires_grad=trained)
    targets = torch.empty(rows, dtype=torch.long, device="meta")
    with Peak() as found:
        scored = hidden.clone()  # hidden_states[mask]
        values = head.ChunkedLogProbFunction.apply(scored, weight, None, targets, 1.0, TILE_COLUMNS, None, 1.0,
                                                   ("log_probs", "entropy", "is_top1"))
        (-values[0].sum()).backward()
    return found.bytes - weight.untyped_storage().nbytes()


def main():
    head._use_triton = lambda device: True
    head._forward_kernel = head._backward_kernel = NoKernel()
    head._addmm_fp32 = lambda *tensors: None
    head.triton = types.SimpleNamespace(cdiv=lambda a, b: -(-a // b))
    trl.trainer.utils.maybe_gather_lm_head_ctx = lambda *weights: contextlib.nullcontext()
    torch.is_autocast_enabled = lambda *device: False
    for rows in (2048, 8192):
        for trained in (False, True):
            by_hand = (min(rows, TILE_ROWS) * TILE_COLUMNS * 2 + rows * HIDDEN * (2 + 4 + 2) +
                       (VOCABULARY * HIDDEN * (4 + 2) if trained else 0))
            print(f"{rows} positions, head {'trained' if trained else 'frozen'}: {peak(rows, trained) / 2**20:.1f} MiB, "
                  f"by the stack {by_hand / 2**20:.1f}")


if __name__ == "__main__":
    main()
