#!/usr/bin/env python3
"""Golden data of optimizers with quantized or low-rank state, made by the libraries that define them.

Writes optim/quantizer.json (maps and sweeps of the block-wise quantizers), optim/quantized.json (parameters after ten
steps of bitsandbytes' and torchao's optimizers) and optim/galore.json (galore-torch). Parameters and gradients come
from the integer hash below, which the tests compute again; only results are stored, as bits of float32.

bitsandbytes runs its CPU optimizers, but not its CPU quantizer: that of 0.50.2 gives 0 the code of 4.3e-5 of the
block's scale, so that parameters without gradient move. cuda_quantize() below, after csrc/kernels.cu, stands in its
place. torchao's step is called without torch.compile, which changes no rounding that matters here. galore-torch's 8-bit
class needs bitsandbytes below 0.50, so its few lines around bitsandbytes' step are written out.

Made with bitsandbytes 0.50.2, torchao 0.18, galore-torch 1.0, torch 2.15:  python quantized.py
"""
import hashlib
import json
import zlib
from pathlib import Path

import bitsandbytes as bnb
import bitsandbytes.backends.cpu.ops as bnb_cpu
import bitsandbytes.functional as bnb_functional
import galore_torch
import numpy as np
import torch
from galore_torch.galore_projector import GaLoreProjector
from torchao.optim import quant_utils
from torchao.optim.adam import single_param_adam
from torchao.optim.subclass_4bit import OptimState4bit

FOLDER = Path(__file__).parent / "optim"
STEPS, WEIGHT_DECAY = 10, 0.05
# 4095 elements stay in 32 bits, 4097 end in a block of one element (and have no 4-bit form)
SHAPES = [[1], [7], [63, 65], [64, 64], [17, 241]]
SPARSE, ZERO_STEP = 4, 3  # the tensor with one gradient in sixteen, the step whose gradients are all zero


def learning_rate(step):
    return 0.01 * (1 - 0.05 * step)


def numbers(seed, count):
    """Multiples of 2^-16 in (-1, 1), and the 32 bits of the hash that they come from."""
    u = (np.arange(count, dtype=np.uint64) * 2654435761 + seed * 40503 + 12345) % 2**32
    u ^= u >> 15
    u = u * 2246822519 % 2**32
    u ^= u >> 13
    return ((u % 65536).astype(np.float32) - np.float32(32767.5)) / np.float32(32768), u


def parameter(index, shape):
    values = numbers(1000 + index, int(np.prod(shape)))[0]
    return torch.from_numpy(values * values * values).view(shape)


def gradient(index, shape, step):
    """Magnitudes of 0.125 to 1: a mean of squares is not lost in the quantizer, which would divide by epsilon."""
    values, hashed = numbers(100 * index + step, int(np.prod(shape)))
    values = np.copysign(np.abs(values) * np.float32(0.875) + np.float32(0.125), values)
    if step == ZERO_STEP:
        values[:] = 0
    if index == SPARSE:
        values[hashed >> 28 != 0] = 0
    return torch.from_numpy(values).view(shape)


def bits(tensor, stride=4):
    """Every stride-th element, eight hexadecimal digits each."""
    return tensor.detach().contiguous().view(-1)[::stride].numpy().astype(">f4").tobytes().hex()


def crc(codes):
    return zlib.crc32(np.asarray(codes, dtype=np.uint8).tobytes())


# --- quantizers -----------------------------------------------------------------------------------------------------
def sweep(signed):
    k = np.arange(65536, dtype=np.float64)
    return torch.from_numpy((2 * k / 65535 - 1 if signed else k / 65535).astype(np.float32))


def nearest(code_map, x):
    """Index of the nearest value, from exact distances; the sweeps hold no tie."""
    distance = np.abs(code_map.astype(np.float64)[None, :] - x.astype(np.float64)[:, None])
    return distance.argmin(1)


def quantizers():
    signed, unsigned = (bnb_functional.create_dynamic_map(s).numpy() for s in (True, False))
    assert hashlib.sha256(signed.tobytes()).hexdigest().startswith("e732639a65f497b4ad684bb166a44677")
    assert hashlib.sha256(unsigned.tobytes()).hexdigest().startswith("305f002cc11278fb769d13b25b9fd0c7")
    maps4 = [np.array(quant_utils.create_dynamic_map(True, 3, 4), dtype=np.float32),
             torch.linspace(0, 1, 17)[1:].numpy()]
    result = {}
    for name, code_map, is_signed in (("signed8", signed, True), ("unsigned8", unsigned, False),
                                      ("signed4", maps4[0], True), ("unsigned4", maps4[1], False)):
        x = sweep(is_signed)
        if name.endswith("8"):
            codes = np.concatenate([nearest(code_map, part.numpy()) for part in x.split(4096)])
        else:
            codes = quant_utils.quantize_4bit_with_qmap(x, torch.from_numpy(code_map)).numpy()
        result[name] = {"map": [int(b) for b in code_map.view(np.uint32)], "sweep_crc32": crc(codes),
                        "map_crc32": zlib.crc32(code_map.tobytes())}
    return result


def cuda_quantize(x, code_map, absmax_out, out, block_size):
    """dQuantize of csrc/kernels.cu: bisection from 127, then the sign's repair for maps with a sign."""
    flat, values = x.view(-1).numpy(), code_map.numpy()
    for begin in range(0, len(flat), block_size):
        block = flat[begin:begin + block_size]
        scale = np.abs(block).max()
        absmax_out.view(-1)[begin // block_size] = float(scale)
        with np.errstate(invalid="ignore"):
            units = block / scale
        pivot, low, high = (np.full(len(block), i) for i in (127, 0, 255))
        for step in (64, 32, 16, 8, 4, 2, 1):
            above = units > values[pivot]
            low, high = np.where(above, pivot, low), np.where(above, high, pivot)
            pivot = pivot + np.where(above, step, -step)
        half = np.float32(0.5)
        up = units > (values[high] + values[pivot]) * half
        down = units < (values[low] + values[pivot]) * half
        codes = np.where(units > values[pivot], np.where(up, high, pivot), np.where(down, low, pivot))
        if values[0] < 0:
            codes = codes + np.where(np.signbit(values[codes]) != np.signbit(block), np.where(block > 0, 1, -1), 0)
        out.view(-1)[begin:begin + block_size] = torch.from_numpy((codes % 256).astype(np.uint8))


# --- quantized optimizers -------------------------------------------------------------------------------------------
def run(make):
    parameters = [torch.nn.Parameter(parameter(i, shape)) for i, shape in enumerate(SHAPES)]
    optimizer = make(parameters)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        for i, p in enumerate(parameters):
            p.grad = gradient(i, SHAPES[i], step)
        optimizer.step()
    return [bits(p) for p in parameters]


def run_adamw4():
    results = []
    for i, shape in enumerate(SHAPES):
        p = parameter(i, shape)
        quantized = p.numel() >= 4096 and p.numel() % 256 == 0
        states = [OptimState4bit.zeros(p.shape, s, 256, "cpu", dtype=p.dtype) if quantized else torch.zeros_like(p)
                  for s in (True, False)]
        for step in range(STEPS):
            single_param_adam(p, gradient(i, shape, step), torch.tensor(step + 1.0), *states, None,
                              torch.tensor(learning_rate(step)), 0.9, 0.999, WEIGHT_DECAY, 1e-8, True, False)
        results.append(bits(p))
    return results


def quantized():
    decay = dict(lr=0.01, weight_decay=WEIGHT_DECAY)
    optim = bnb.optim
    return {
        "adamw_8bit": run(lambda p: optim.AdamW(p, optim_bits=8, **decay)),
        "ademamix_8bit": run(lambda p: optim.AdEMAMix(p, optim_bits=8, **decay)),
        "lion_8bit": run(lambda p: optim.Lion(p, betas=(0.9, 0.999), optim_bits=8, **decay)),
        "rmsprop_bnb_8bit": run(lambda p: optim.RMSprop(p, optim_bits=8, **decay)),
        "paged_adamw_32bit": run(lambda p: optim.AdamW(p, optim_bits=32, is_paged=True, **decay)),
        "paged_ademamix_32bit": run(lambda p: optim.AdEMAMix(p, optim_bits=32, is_paged=True, **decay)),
        "paged_lion_32bit": run(lambda p: optim.Lion(p, betas=(0.9, 0.999), optim_bits=32, is_paged=True, **decay)),
        "adamw_torch_4bit": run_adamw4(),
    }


# --- GaLore -----------------------------------------------------------------------------------------------------------
# A tall, a wide and a square target, one below the rank, and a tensor that is no target. 160 x 40 projected to rank
# 128 has min(160, 40) columns.
GALORE_SHAPES = [[160, 136], [132, 150], [129, 129], [160, 40], [97]]
RANK = dict(rank=128, update_proj_gap=200, scale=0.25, proj_type="std")


def galore_rate(step):
    """From 0: in its first step AdamW turns every gradient into a sign, that of a rounding error too."""
    return 0.001 * step


def galore_parameters():
    return [torch.nn.Parameter(parameter(50 + i, shape)) for i, shape in enumerate(GALORE_SHAPES)]


def cosines(size, count):
    """Orthogonal columns of the discrete cosine transform, float64 [size, count]."""
    angle = np.pi / size * (np.arange(size)[:, None] + 0.5) * np.arange(count)[None, :]
    return np.cos(angle) * np.sqrt(2 / size)


def galore_gradient(i, step):
    """The first one, which is decomposed, has singular values 1/64 apart: their vectors are well determined."""
    noise = gradient(50 + i, GALORE_SHAPES[i], 10 + step)
    if step > 0 or noise.dim() == 1:
        return noise
    rows, columns = noise.shape
    count = min(rows, columns)
    scaled = cosines(rows, count) * ((1 + np.arange(count)) / 64)
    return torch.from_numpy(scaled @ cosines(columns, count).T + noise.double().numpy() / 8192).float()


def run_galore(make):
    parameters = galore_parameters()
    optimizer = make([{"params": parameters[-1:]}, {"params": parameters[:-1], **RANK}])
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = galore_rate(step)
        for i, p in enumerate(parameters):
            p.grad = galore_gradient(i, step)
        optimizer.step()
    return [bits(p, 16) for p in parameters]


def run_galore_8bit(decay=0.01):
    """galore_torch.adamw8bit.AdamW8bit.step, around bitsandbytes' update of a tensor of zeros."""
    results = []
    for i, start in enumerate(galore_parameters()):
        target, low = start.detach().clone(), None
        projector = GaLoreProjector(**RANK)
        for step in range(STEPS):
            g = galore_gradient(i, step)
            if target.dim() == 1:
                if low is None:
                    low = torch.nn.Parameter(target)
                    inner = bnb.optim.AdamW([low], lr=1, optim_bits=8, weight_decay=decay)
                low.grad = g
            else:
                projected = projector.project(g, step)
                if low is None:
                    low = torch.nn.Parameter(torch.zeros_like(projected))
                    inner = bnb.optim.AdamW([low], lr=1, optim_bits=8, weight_decay=0)
                low.data.zero_()
                low.grad = projected
            inner.param_groups[0]["lr"] = galore_rate(step)
            inner.step()
            if target.dim() == 2:
                target += projector.project_back(low.data)
                target -= galore_rate(step) * decay * target
        results.append(bits(low if target.dim() == 1 else target, 16))
    return results


def galore():
    return {
        "galore_adamw": run_galore(lambda groups: galore_torch.GaLoreAdamW(groups, lr=1, no_deprecation_warning=True)),
        "galore_adafactor": run_galore(lambda groups: galore_torch.GaLoreAdafactor(
            groups, lr=1, scale_parameter=False, relative_step=False)),
        "galore_adamw_8bit": run_galore_8bit(),
    }


def write(name, content):
    (FOLDER / name).write_text(json.dumps(content, indent=1) + "\n")


def main():
    FOLDER.mkdir(exist_ok=True)
    bnb_cpu._quant_blockwise_fp32_direct = cuda_quantize
    write("quantizer.json", quantizers())
    write("quantized.json", quantized())
    write("galore.json", galore())


if __name__ == "__main__":
    main()
