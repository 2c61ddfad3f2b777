"""The table of collectives_bench for torch.distributed's Gloo: python torch_gloo.py [--ranks N] [--dtype float32].

Tensors that torch's Gloo takes in place (all_gather_into_tensor, reduce_scatter_tensor, all_reduce), one thread per rank.
"""
import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(operation, whole, part):
    rank = dist.get_rank()
    if operation == "all_gather":
        dist.all_gather_into_tensor(whole.view(-1), whole[rank])
    elif operation == "reduce_scatter":
        dist.reduce_scatter_tensor(part, whole.view(-1))
    else:
        dist.all_reduce(whole)


def measure(rank, options):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    ranks = options.ranks
    if rank == 0:
        print(f"# {ranks} ranks, torch {torch.__version__} over Gloo, {options.dtype}, median of {options.rounds} rounds")
        print("| operation | bytes | time us | algbw GB/s | busbw GB/s |\n| --- | ---: | ---: | ---: | ---: |")
    for operation in options.operations:
        size = options.min_bytes
        while size <= options.max_bytes:
            dtype = getattr(torch, options.dtype)
            n = max(1, size // dtype.itemsize // ranks)
            whole = torch.full((ranks, n), float(rank + 1), dtype=dtype)
            part = torch.zeros(n, dtype=dtype)
            run(operation, whole, part)
            count = min(max((128 << 20) // size, 3), 200)
            rounds = []
            for _ in range(options.rounds):
                dist.barrier()
                begin = time.perf_counter()
                for _ in range(count):
                    run(operation, whole, part)
                slowest = torch.tensor((time.perf_counter() - begin) / count, dtype=torch.float64)
                dist.all_reduce(slowest, dist.ReduceOp.MAX)
                rounds.append(slowest.item())
            seconds = statistics.median(rounds)
            rate = whole.nbytes / seconds / 1e9
            factor = (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks
            if rank == 0:
                print(f"| {operation} | {whole.nbytes} | {seconds * 1e6:.1f} | {rate:.3f} | {rate * factor:.3f} |", flush=True)
            size *= 4
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--operations", nargs="+", default=["all_gather", "reduce_scatter", "all_reduce"])
    parser.add_argument("--min-bytes", type=int, default=1 << 10)
    parser.add_argument("--max-bytes", type=int, default=64 << 20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=29533)
    options = parser.parse_args()
    mp.spawn(measure, (options,), nprocs=options.ranks)
