#!/usr/bin/env python3
"""Golden updates: ten steps of each 32-bit optimizer on awkward tensors, made with the packages that Trainer uses.

Writes optimizers/inputs.json (parameters, a gradient for each step, learning rates) and optimizers/<case>.json (the
parameters after the first and the last step); and optimizers/trainer.json: what Trainer logs of ten steps with each of
them on the tiny Llama of training.py, two micro-batches a step. Every optimizer is built with the arguments that
Trainer gives it (transformers.trainer_optimizer). Where no package exists for this machine the published rule is computed in float64:
apex.optimizers.FusedAdam and torchdistx's AnyPrecisionAdamW, whose states are float32 whatever the parameters are.
adamw_hf, which transformers 5 no longer has, is galore_torch's AdamW, a copy of it, without projection.

Made with torch 2.15, transformers 5.23, bitsandbytes 0.50.2 (CPU), lomo-optim 0.1.1, schedulefree 1.4.1,
grokadamw 0.1.2, galore-torch 1.0:  python optimizers.py [NAME...]

With names, only the cases of these optimizers are written, which takes their packages alone. Their runs of Trainer
replace those in trainer.json.
"""
import json
import random
import sys
import warnings
from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "optimizers"
STEPS, DECAY, BETAS, EPSILON = 10, 0.1, (0.9, 0.999), 1e-8
RATES = [0.01 * (1 - step / (2 * STEPS)) for step in range(STEPS)]
WARMUP_RATES = [0.01 * min(1.0, step / 3) for step in range(STEPS)]

# name: shape, what its gradients are like. Biases and norms do not decay.
TENSORS = {
    "one.weight": ([1], "dense"),
    "odd.weight": ([7], "dense"),
    "matrix.weight": ([13, 19], "dense"),
    "column.weight": ([5, 1], "dense"),
    "row.weight": ([1, 9], "dense"),
    "transposed.weight": ([8, 6], "non-contiguous"),
    "zero.weight": ([6, 4], "zero"),
    "sparse.weight": ([20, 10], "sparse"),
    "tiny.weight": ([3, 17], "tiny"),
    "linear.bias": ([5], "dense"),
    "norm.weight": ([33], "dense"),
}


def make_inputs():
    rng = random.Random(11)

    def values(shape, draw):
        if not shape:
            return draw()
        return [values(shape[1:], draw) for _ in range(shape[0])]

    draws = {"dense": lambda: round(rng.gauss(0, 1), 3), "non-contiguous": lambda: round(rng.gauss(0, 1), 3),
             "zero": lambda: 0.0, "sparse": lambda: round(rng.gauss(0, 1), 3) if rng.random() < 0.1 else 0.0,
             "tiny": lambda: round(rng.gauss(0, 1), 3) * 1e-6}
    return {"weight_decay": DECAY, "learning_rates": RATES, "warmup_learning_rates": WARMUP_RATES,
            "tensors": [{"name": name, "kind": kind, "parameter": values(shape, lambda: round(rng.gauss(0, 0.5), 3)),
                         "gradients": [values(shape, draws[kind]) for _ in range(STEPS)]}
                        for name, (shape, kind) in TENSORS.items()]}


def decays(name):
    return not (name.endswith("bias") or name.startswith("norm"))


class Problem(torch.nn.Module):
    """The parameters, with gradients that are given instead of computed."""

    def __init__(self, inputs, dtype, stored=None):
        super().__init__()
        self.tensors, self.stored = inputs["tensors"], stored or dtype
        self.own = torch.nn.ParameterDict()
        for tensor in self.tensors:
            value = torch.tensor(tensor["parameter"], dtype=torch.float32).to(self.stored).to(dtype)
            self.own[tensor["name"].replace(".", "_")] = torch.nn.Parameter(value)

    def parameter(self, tensor):
        return self.own[tensor["name"].replace(".", "_")]

    def gradient(self, tensor, step):
        parameter = self.parameter(tensor)
        gradient = torch.tensor(tensor["gradients"][step], dtype=torch.float32).to(self.stored).to(parameter.dtype)
        return gradient.t().contiguous().t() if tensor["kind"] == "non-contiguous" else gradient

    def groups(self, decay=DECAY):
        chosen = lambda wanted: [self.parameter(t) for t in self.tensors if decays(t["name"]) == wanted]
        return [{"params": chosen(True), "weight_decay": decay}, {"params": chosen(False), "weight_decay": 0.0}]

    def set_gradients(self, step, contiguous):
        for tensor in self.tensors:
            gradient = self.gradient(tensor, step)
            self.parameter(tensor).grad = gradient.contiguous() if contiguous else gradient

    def loss(self, step):
        """Its gradients are the given ones."""
        return sum((self.parameter(t) * self.gradient(t, step)).sum() for t in self.tensors)


class Float64Adam:
    """apex.optimizers.FusedAdam (adam_w_mode) and torchdistx.optimizers.AnyPrecisionAdamW (no Kahan summation), with
    float32 states: torch.optim.AdamW's rule. Only the parameters have another dtype."""

    def __init__(self, groups):
        self.param_groups, self.step_count = [{**group, "lr": 0.0} for group in groups], 0
        self.states = {p: [torch.zeros(p.shape, dtype=torch.float64) for _ in range(2)]
                       for group in groups for p in group["params"]}

    def step(self):
        self.step_count += 1
        correction1, correction2 = (1 - beta ** self.step_count for beta in BETAS)
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient, value = parameter.grad.double(), parameter.detach().double()
                mean, square = self.states[parameter]
                mean.mul_(BETAS[0]).add_((1 - BETAS[0]) * gradient)
                square.mul_(BETAS[1]).add_((1 - BETAS[1]) * gradient ** 2)
                update = mean / correction1 / ((square / correction2).sqrt() + EPSILON)
                value = value - group["lr"] * (update + group["weight_decay"] * value)
                parameter.data.copy_(value)


def build(name, problem):
    adam = dict(betas=BETAS, eps=EPSILON)
    groups = problem.groups()
    if name in ("adamw_torch", "adamw_torch_fused"):
        return torch.optim.AdamW(groups, lr=1.0, fused=name.endswith("fused") or None, **adam)
    if name == "adamw_hf":
        from galore_torch import GaLoreAdamW
        return GaLoreAdamW(groups, lr=1.0, no_deprecation_warning=True, **adam)
    if name in ("adamw_apex_fused", "adamw_anyprecision"):
        return Float64Adam(groups)
    if name == "adafactor":
        from transformers import Adafactor
        return Adafactor(groups, lr=1.0, scale_parameter=False, relative_step=False)
    if name in ("sgd", "adagrad", "rmsprop"):
        return {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad,
                "rmsprop": torch.optim.RMSprop}[name](groups, lr=1.0)
    if name == "grokadamw":
        from grokadamw import GrokAdamW
        return GrokAdamW(groups, lr=1.0, alpha_init=0.98, lamb=2.0, gamma=0.1, grokking_signal_decay_rate=0.1,
                         gradient_clipping=1.0)
    if name.startswith("schedule_free"):
        import schedulefree
        extra = dict(weight_decay=DECAY, warmup_steps=0, weight_lr_power=2.0, r=0.0)
        optimizer = (schedulefree.AdamWScheduleFree(groups, lr=1.0, **adam, **extra) if "adamw" in name else
                     schedulefree.SGDScheduleFree(groups, lr=1.0, **extra))
        optimizer.train()
        return optimizer
    import bitsandbytes.optim as bnb
    if name == "ademamix":
        return bnb.AdEMAMix(groups, lr=1.0, betas=(*BETAS, 0.9999), alpha=5.0, eps=EPSILON, optim_bits=32,
                            is_paged=False)
    if name == "lion_32bit":
        return bnb.Lion(groups, lr=1.0, betas=BETAS, optim_bits=32, is_paged=False)
    if name == "rmsprop_bnb_32bit":
        return bnb.RMSprop(groups, lr=1.0, optim_bits=32)
    raise ValueError(name)


def run_with_step(name, problem, rates, snapshot):
    optimizer = build(name, problem)
    for step, rate in enumerate(rates):
        # torch's fused CPU kernel reads a gradient in the order of memory, whatever its strides are.
        problem.set_gradients(step, contiguous=name == "adamw_torch_fused")
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        snapshot(step, optimizer)


def run_in_backward(name, problem, rates, snapshot):
    import lomo_optim
    optimizer = (lomo_optim.AdaLomo if name == "adalomo" else lomo_optim.Lomo)(problem, lr=1.0)
    for step, rate in enumerate(rates):
        optimizer.fused_backward(problem.loss(step), rate)
        snapshot(step)


def round_stored(optimizer, dtype):
    """Parameters and states become what `dtype` holds of them: arithmetic is wide, storage is not."""
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                states = group.get("state", optimizer.state)[parameter]  # grokadamw keeps them in the group
                kept = [v for k, v in states.items() if torch.is_tensor(v) and k != "step"]
                for tensor in (parameter, *kept):
                    tensor.copy_(tensor.to(dtype))


def values_of(problem):
    return [problem.parameter(t).detach().flatten().tolist() for t in problem.tensors]


def golden(name, inputs, dtype, rates, stored=None):
    """`stored`: parameters, gradients and states are of that dtype, and one step's arithmetic is in `dtype`."""
    problem, after = Problem(inputs, dtype, stored), {}

    def snapshot(step, optimizer=None):
        if stored:
            round_stored(optimizer, stored)
        if step in (0, STEPS - 1):
            after[step + 1] = values_of(problem)

    (run_in_backward if "lomo" in name else run_with_step)(name, problem, rates, snapshot)
    return {"optimizer": name, "dtype": str(stored or dtype).removeprefix("torch."), "learning_rates": rates,
            "after": [{"step": step, "parameters": values} for step, values in after.items()]}


def trainer_run(optim):
    """Losses of the run in training/llama-float32.json with another optimizer; the rate of those whose step does not
    depend on the gradient's size is a tenth of AdamW's."""
    import training
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
    rate = {"lion_32bit": 2e-4, "ademamix": 2e-4, "sgd": 0.2, "lomo": 0.02, "schedule_free_sgd": 0.2}.get(optim, 2e-3)
    settings = {**training.SETTINGS, "learning_rate": rate}
    tokenizer = AutoTokenizer.from_pretrained(training.FOLDER / "tokenizer")
    texts = [json.loads(line)["output"] for line in (training.FOLDER / "dataset.jsonl").read_text().splitlines()]
    model = AutoModelForCausalLM.from_pretrained(training.FOLDER / "llama", dtype=torch.float32)
    recorder = training.Recorder()
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, optim=optim, logging_steps=1, save_strategy="no",
                                  report_to="none", disable_tqdm=True, remove_unused_columns=False, **settings)
    Trainer(model=model, args=arguments, train_dataset=[training.encode(tokenizer, text) for text in texts],
            data_collator=training.make_collator(tokenizer.pad_token_id), callbacks=[recorder]).train()
    return {"optim": optim, "learning_rate": rate, "losses": [step["loss"] for step in recorder.steps],
            "final_norms": {name: p.detach().double().norm().item() for name, p in model.named_parameters()}}


TRAINER = ("adafactor", "adagrad", "adalomo", "ademamix", "grokadamw", "lion_32bit", "lomo", "rmsprop",
           "rmsprop_bnb", "schedule_free_adamw", "schedule_free_sgd", "sgd")


# Packages that round a bfloat16 parameter once per step, as sftbench does ...
BFLOAT16 = ("adamw_torch_fused", "adamw_apex_fused", "adamw_anyprecision", "adafactor", "ademamix", "lion_32bit",
            "rmsprop_bnb_32bit", "lomo", "adalomo")
# ... and those that round every operation: the golden steps are theirs in float64, with parameters and states rounded
# to bfloat16 after each; "every_operation_rounded" is what the package itself makes of bfloat16 parameters.
ROUNDING = ("adamw_torch", "adamw_hf", "sgd", "adagrad", "rmsprop", "grokadamw", "schedule_free_adamw",
            "schedule_free_sgd")
FLOAT32 = ROUNDING + BFLOAT16


def main():
    warnings.simplefilter("ignore")
    torch.Tensor.cuda = lambda self, *args, **kwargs: self  # lomo-optim puts its state there without asking
    FOLDER.mkdir(exist_ok=True)
    chosen = sys.argv[1:] or FLOAT32
    if unknown := set(chosen) - set(FLOAT32):
        sys.exit(f"not among the cases: {', '.join(unknown)}")
    for old in FOLDER.glob("*.json") if not sys.argv[1:] else []:
        old.unlink()
    inputs = make_inputs()
    (FOLDER / "inputs.json").write_text(json.dumps(inputs) + "\n")
    cases = {f"{name}-float32": golden(name, inputs, torch.float32, RATES) for name in chosen}
    cases |= {f"{name}-bfloat16": golden(name, inputs, torch.bfloat16, RATES) for name in BFLOAT16 if name in chosen}
    for name in (name for name in ROUNDING if name in chosen):
        cases[f"{name}-bfloat16"] = golden(name, inputs, torch.float64, RATES, stored=torch.bfloat16)
        package = golden(name, inputs, torch.bfloat16, RATES)["after"][-1]
        cases[f"{name}-bfloat16"]["every_operation_rounded"] = package["parameters"]
    for name in (name for name in ("schedule_free_adamw", "schedule_free_sgd") if name in chosen):
        cases[f"{name}-warmup"] = golden(name, inputs, torch.float32, WARMUP_RATES)
    for case, content in cases.items():
        shorten = lambda value: float(f"{value:.9g}")  # enough for float32
        for row in content["after"]:
            row["parameters"] = [[shorten(v) for v in values] for values in row["parameters"]]
        (FOLDER / f"{case}.json").write_text(json.dumps(content) + "\n")
    trainer = FOLDER / "trainer.json"
    runs = {run["optim"]: run for run in json.loads(trainer.read_text())} if trainer.exists() else {}
    runs |= {optim: trainer_run(optim) for optim in TRAINER if optim in chosen or not sys.argv[1:]}
    trainer.write_text(json.dumps(list(runs.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
