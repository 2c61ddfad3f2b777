#!/usr/bin/env python3
"""Free blocks that PyTorch's caching allocator keeps beside what is allocated: usage: fragmentation.py

Replays the large tensors of a training step of transformers on the rules of c10/cuda/CUDACachingAllocator.cpp: requests
up to 1 MiB apart, segments of 20 MiB or of whole 2 MiB, the smallest free block that is large enough, split if more than
1 MiB is left, neighbors joined. The device has room: nothing is given back. Prints reserved over allocated, less 1, for
rows of one length and of different ones (log-normal, cut), which are the constants `fragmentation` of
config/stacks.yaml. Nothing is fitted.
"""
import bisect
import random
import statistics

MIB = 1 << 20
MODELS = {"Llama 2 7B": (4096, 11008, 32000, 32, 4096), "Llama 3 8B": (4096, 14336, 128256, 32, 1024),
          "Qwen 7B": (4096, 11008, 151936, 32, 4096)}  # hidden, inner, vocabulary, layers, keys
ROWS = ((1, 300, 2048), (4, 300, 2048), (1, 1500, 2048))  # rows of a micro-batch, median, longest
STEPS, SEEDS = 150, 3


class Block:
    def __init__(self, size, before, behind):
        self.size, self.before, self.behind, self.free, self.key = size, before, behind, False, 0


class Allocator:
    def __init__(self):
        self.blocks, self.order, self.keys = {}, [], 0
        self.reserved = self.allocated = self.peak = 0

    def put(self, block):
        self.keys += 1
        block.free, block.key = True, self.keys
        self.blocks[block.key] = block
        bisect.insort(self.order, (block.size, block.key))

    def take(self, place):
        return self.blocks.pop(self.order.pop(place)[1])

    def allocate(self, size):
        size = -(-size // 512) * 512
        if size <= MIB:
            return Block(0, None, None)
        place = bisect.bisect_left(self.order, (size, 0))
        if place < len(self.order):
            block = self.take(place)
        else:
            block = Block(20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB, None, None)
            self.reserved += block.size
        if block.size - size > MIB:
            rest = Block(block.size - size, block, block.behind)
            if rest.behind:
                rest.behind.before = rest
            block.behind, block.size = rest, size
            self.put(rest)
        block.free = False
        self.allocated += block.size
        self.peak = max(self.peak, self.allocated)
        return block

    def release(self, *blocks):
        for block in blocks:
            if block.size == 0:
                continue
            self.allocated -= block.size
            for other in (block.before, block.behind):
                if other is None or not other.free:
                    continue
                self.take(bisect.bisect_left(self.order, (other.size, other.key)))
                block.size += other.size
                if other is block.before:
                    block.before = other.before
                    if block.before:
                        block.before.behind = block
                else:
                    block.behind = other.behind
                    if block.behind:
                        block.behind.before = block
            self.put(block)


def step(allocator, positions, model, checkpoints):
    hidden, inner, vocabulary, layers, keys = model

    def new(*values, size=2):
        return [allocator.allocate(positions * value * size) for value in values]

    def layer():
        passing = new(hidden, hidden)
        kept = new(hidden, hidden, size=4) + new(hidden, hidden, hidden, keys, keys, hidden, hidden, hidden)
        kept += new(inner, inner, inner, inner)
        out = new(hidden)
        allocator.release(*passing)
        return kept, out

    waiting, stream = [], new(hidden)
    for _ in range(layers):
        kept, out = layer()
        if checkpoints:
            allocator.release(*kept)
            kept = []
        waiting.append(stream + kept)
        stream = out
    norm = new(hidden, size=4) + new(hidden)
    narrow = new(vocabulary)
    wide = new(vocabulary, size=4)
    allocator.release(*narrow)
    shifted = new(vocabulary, size=4)
    probabilities = new(vocabulary, size=4)
    allocator.release(*shifted, *wide)
    first = new(vocabulary, size=4)
    second = new(vocabulary, size=4)
    allocator.release(*first, *probabilities)
    third = new(vocabulary, size=4)
    allocator.release(*second)
    narrow = new(vocabulary)
    allocator.release(*third)
    gradient = new(hidden)
    allocator.release(*narrow, *norm, *stream)
    for inputs in reversed(waiting):
        kept, out = layer() if checkpoints else ([], [])
        inside = new(inner, inner, inner)
        following = new(hidden)
        allocator.release(*inside)
        inside = new(hidden, hidden) + new(hidden, size=4)
        allocator.release(*inside, *kept, *inputs, *out, *gradient)
        gradient = following
    allocator.release(*gradient)


def beside(model, checkpoints, batch, lengths, seed, steps):
    chance, allocator = random.Random(seed), Allocator()
    for _ in range(steps):
        step(allocator, batch * max(lengths(chance) for _ in range(batch)), model, checkpoints)
    return allocator.reserved / allocator.peak - 1


def main():
    for checkpoints in (True, False):
        fixed, varied = [], []
        for model in MODELS.values():
            fixed.append(beside(model, checkpoints, 4, lambda chance: 2048, 0, 10))
            for batch, median, longest in ROWS:
                def lengths(chance):
                    return max(16, min(longest, int(chance.lognormvariate(0, 0.9) * median)))
                varied += [beside(model, checkpoints, batch, lengths, seed, STEPS) for seed in range(SEEDS)]
        varied.sort()
        print(f"checkpointing {checkpoints}: one length {statistics.median(fixed):.2f}; different lengths, median "
              f"{statistics.median(varied):.2f}, 5 % to 95 % {varied[1]:.2f} to {varied[-2]:.2f}")


if __name__ == "__main__":
    main()
