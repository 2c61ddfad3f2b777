#!/usr/bin/env python3
"""What a machine can do at best, at the shapes of the goals (plan.py). Prints one JSON object.

  bench/gpu/ceilings.py products|copy|attention|plans [--device cuda|cpu] [--small]

Inputs are random, because products of zeros are faster. Outputs begin as NaN, so that one that nobody wrote is seen. Times
are medians of seven windows, each of enough calls to fill a tenth of a second.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F

WINDOWS = 7
SUSTAINED_S = 15


class Clock:
    """Seconds of work on a device, from an empty queue to an empty queue."""

    def __init__(self, device):
        self.cuda = device == "cuda"

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def seconds(self, work, count):
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            work()
        self.synchronize()
        return (time.perf_counter() - begin) / count

    def median(self, work, window_s=0.1):
        self.seconds(work, 2)
        count = max(1, int(window_s / max(self.seconds(work, 1), 1e-6)))
        return statistics.median(self.seconds(work, count) for _ in range(WINDOWS))


def randn(device, *shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=device).to(dtype)


def products(device, clock, small):
    """Tokens x inputs x outputs of each linear of the goals, forward, and 8192^3 for long."""
    tokens = 64 if small else 8192
    shapes = {"8B q, o": (4096, 4096), "8B k, v": (4096, 1024), "8B gate, up": (4096, 14336), "8B down": (14336, 4096),
              "8B output": (4096, 128256), "8B adapter A": (4096, 16), "8B adapter B": (16, 4096)}
    of_135m = {"135M q, o": (576, 576), "135M gate, up": (576, 1536), "135M down": (1536, 576), "135M output": (576, 49152)}
    found = {}
    for names, rows in ((shapes, tokens), (of_135m, 4 * tokens)):
        for name, (inputs, outputs) in names.items():
            if small:
                inputs, outputs = min(inputs, 64), min(outputs, 64)
            a, b = randn(device, rows, inputs), randn(device, outputs, inputs)
            out = torch.full((rows, outputs), float("nan"), dtype=a.dtype, device=device)
            seconds = clock.median(lambda: torch.mm(a, b.t(), out=out))
            assert not out.isnan().any(), name
            flops = 2 * rows * inputs * outputs
            found[f"{name} ({rows} x {inputs} x {outputs})"] = {"TFLOP/s": flops / seconds / 1e12, "us": seconds * 1e6}
            gradient = randn(device, rows, outputs)
            seconds = clock.median(lambda: torch.mm(gradient.t(), a))
            found[f"{name}, its weight's gradient"] = {"TFLOP/s": flops / seconds / 1e12, "us": seconds * 1e6}
            del a, b, out, gradient
    size = 64 if small else 8192
    a, b = randn(device, size, size), randn(device, size, size)
    lasting_s = 0.2 if small else SUSTAINED_S
    out, rates, end = torch.empty_like(a), [], time.monotonic() + lasting_s
    while time.monotonic() < end:
        rates.append(2 * size**3 / clock.seconds(lambda: torch.mm(a, b, out=out), 20) / 1e12)
    tenth = max(1, len(rates) // 10)
    found[f"{size}^3 for {lasting_s} s"] = {"TFLOP/s": statistics.median(rates[-tenth:]),
                                             "TFLOP/s at first": statistics.median(rates[:tenth])}
    return found


def copy(device, clock, small):
    """Bytes read and written; addition as an element-wise kernel has it; copies from and to pinned memory."""
    numel = 1 << 16 if small else 1 << 30
    x, y = torch.randn(numel, device=device), torch.empty(numel, device=device)
    found = {"copy on the device": {"TB/s": 2 * x.nbytes / clock.median(lambda: y.copy_(x)) / 1e12},
             "x + x": {"TB/s": 2 * x.nbytes / clock.median(lambda: torch.add(x, x, out=y)) / 1e12}}
    host = torch.empty(numel // 4, pin_memory=device == "cuda")
    part = x[:numel // 4]
    found["to the device, pinned"] = {"GB/s": host.nbytes / clock.median(lambda: part.copy_(host, non_blocking=True)) / 1e9}
    found["to the host, pinned"] = {"GB/s": host.nbytes / clock.median(lambda: host.copy_(part, non_blocking=True)) / 1e9}
    return found


def heads(device, batch, length, q_heads, kv_heads, width):
    """As a model's linears make them: [B, S, H, D], seen as [B, H, S, D]."""
    return [randn(device, batch, length, count, width).transpose(1, 2).requires_grad_() for count in (q_heads, kv_heads, kv_heads)]


def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def backends(device):
    from torch.nn.attention import SDPBackend
    return {"math": SDPBackend.MATH} if device == "cpu" else {"cudnn": SDPBackend.CUDNN_ATTENTION,
                                                            "flash": SDPBackend.FLASH_ATTENTION}


def attention(device, clock, small):
    """cuDNN's kernels beside FlashAttention's, forward and backward, and how far apart they are."""
    from torch.nn.attention import sdpa_kernel
    shapes = {"8B 2 x 4096": (2, 4096, 32, 8, 128), "8B 1 x 16384": (1, 16384, 32, 8, 128), "8B 16 x 512": (16, 512, 32, 8, 128),
              "135M 16 x 2048": (16, 2048, 9, 3, 64)}
    found = {}
    for name, (batch, length, q_heads, kv_heads, width) in shapes.items():
        if small:
            batch, length = 1, 64
        q, k, v = heads(device, batch, length, q_heads, kv_heads, width)
        gradient = randn(device, batch, length, q_heads, width).transpose(1, 2)
        flops, outputs = 2 * batch * q_heads * width * length**2, {}
        for backend, kind in backends(device).items():
            with sdpa_kernel(kind):
                forward = clock.median(lambda: attend(q, k, v))
                out = attend(q, k, v)
                backward = clock.median(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
                outputs[backend] = out.detach().float()
            found[f"{name}, {backend}"] = {"forward TFLOP/s": flops / forward / 1e12, "backward TFLOP/s": 2.5 * flops / backward / 1e12,
                                           "ms": (forward + backward) * 1e3}
        if len(outputs) == 2:
            apart = (outputs["cudnn"] - outputs["flash"]).norm() / outputs["flash"].norm()
            found[f"{name}, cudnn from flash"] = {"relative difference": apart.item()}
    return found


def plans(device, clock, small):
    """Seconds of the first call at eight lengths that come once each, as natural data has them, and of the second."""
    from torch.nn.attention import sdpa_kernel
    found = {}
    for backend, kind in backends(device).items():
        first, again = [], []
        with sdpa_kernel(kind):
            for length in (16, 32) if small else (611, 733, 857, 977, 1103, 1229, 1361, 1481):
                q, k, v = heads(device, 4, length, 9, 3, 64)
                step = lambda: attend(q, k, v).float().sum().backward()
                first.append(clock.seconds(step, 1))
                again.append(clock.seconds(step, 1))
        found[f"{backend}, 4 x 611 to 1481"] = {"s at first": statistics.median(first[1:]), "s again": statistics.median(again[1:])}
    found["TORCH_CUDNN_SDPA_AVOID_RECOMPILE"] = {"set to": os.environ.get("TORCH_CUDNN_SDPA_AVOID_RECOMPILE", "nothing")}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["products", "copy", "attention", "plans"])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes of a rehearsal")
    options = parser.parse_args()
    torch.manual_seed(42)
    measure = {"products": products, "copy": copy, "attention": attention, "plans": plans}[options.kind]
    print(json.dumps(measure(options.device, Clock(options.device), options.small)))


if __name__ == "__main__":
    main()
