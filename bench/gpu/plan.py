"""What bench/gpu/run.py asks a machine, in the order of what it is worth: a call that is cut has told most."""
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

# Suites of ops_test by the kernels of ours that they run. Each is a process of its own, because an illegal
# access spoils the device for the process that made it.
KERNELS = {
    "swiglu": "*GatedTest.*:Swiglu.*", "rms_norm": "RmsNorm.*:AddRmsNorm.*", "rope": "Rope.*",
    "cross_entropy": "LinearCrossEntropy.*", "update": "Update.*:GlobalNorm.*:ClipFactor.*",
    "blockwise_quantize": "BlockwiseUpdate.*:QuantizeBlockwise.*:QuantizeOne.*", "dequantize": "Dequantize.*:GptqLinear.*",
    "embedding": "Embedding.*", "dropout": "Dropout.*:AttentionDropout.*", "route": "Route.*",
    "expert_bias": "GroupedLinear.*", "gated_norm": "GatedNorm.*", "causal_convolution": "CausalConvolution.*",
    "state_space_scan": "StateSpaceScan.*", "adapters": "AddLowRank.*:AdaptedLinears.*:Linears.*",
    "attention": "CausalAttention.*:PackedAttention.*:SinkAttention.*:AttentionParts.*"}
NO_DEVICE_NEEDED = "-*AreRefused*:*NumberOfThreads*"

SUITES = {"model": "*HuggingFaceTest*", "optim": "*", "tuning": "*",
          "engine": "*GoldenTraining*:*TrainingVariants*:*LossScaling*:*DistributeOneRank*:StepGraph*"}

FULL, LORA, GPTQ = (f"finetune_{method}_benchmark-v1.0.0" for method in ("full", "lora", "gptq-lora"))
ON_ALL_LINEAR = ["--lora-r=16", "--lora-targets=all-linear", "--lora-dropout=0"]


@dataclass
class Step:
    """One process. What it prints goes to NAME.N.ENDING, what it complains of to NAME.N.log, N its number."""
    name: str
    command: list
    limit_s: float = 60  # it is ended then
    needs_s: float = 10  # it is not begun with less time left
    ending: str = "json"
    environment: dict = field(default_factory=dict)
    beside: bool = False  # others of its part may run at the same time


@dataclass
class Machine:
    """Where the plan runs, and how large its runs may be."""
    bin: Path
    work: Path  # what earlier calls left, and models and data that runs share
    python: str
    device: str = "cuda"
    gpu: str = ""
    memory_gib: float = 0
    gpus: int = 1
    rehearsal: bool = False  # a model of two layers in place of each, rows of 64 tokens, four steps

    def where(self):
        if self.device == "cpu":
            return {"number_gpus": 0}
        return {"number_gpus": 1, "gpu_model": self.gpu.replace(" ", "-")}

    def sizes(self, properties):
        """What a rehearsal makes of a run's properties."""
        if not self.rehearsal:
            return properties
        small = {"model_max_length": 64, "batch_size": min(2, properties["batch_size"]), "max_steps": 4}
        return {**properties, **small}

    def data_sizes(self):
        return ["--length", "64", "--vocabulary", "8192"] if self.rehearsal else ["--length", "4096"]

    def model(self, name):
        """The arguments that name a model: a folder, or shapes with random weights."""
        if isinstance(name, Path):
            return ["--model", str(name)]
        if self.rehearsal:
            return ["--model", str(self.work / "models/rehearsal"), "--weights", "random"]
        return ["--set", f"model_name={name}", "--weights", "random"]


def ours(machine, name, experiment, *options, model, environment=None, limit_s=120, needs_s=25, **properties):
    """A resolved job, which a peer reads, and the measurement of it. Rows are full, unless there is other data."""
    properties = {"gradient_accumulation_steps": 1, "max_steps": 12, **properties}
    properties = {**machine.where(), **machine.sizes(properties)}
    if "--data" not in options:
        options = ("--data", str(machine.work / "tokens.jsonl"), "--pretokenized", *options)
    command = [machine.bin / "sftbench", "run", "--experiment", experiment, *machine.model(model), *options]
    for key, value in properties.items():
        command += ["--set", f"{key}={value}"]
    yield Step(name, [*command, "--dry-run"], limit_s=20, needs_s=5, ending="job.json")
    yield Step(name, [*command, "--no-progress", "--output", machine.work / "results", "--format", "json"],
               limit_s=limit_s, needs_s=needs_s, ending="result.json", environment=environment or {})


def peer(machine, name, *options, limit_s=120, needs_s=30):
    """The same job under Hugging Face Trainer, with Liger where it is installed."""
    if machine.rehearsal:
        options = ("--without-liger", *options)  # its kernels are Triton's
    return Step(name, [machine.python, "bench/peers/hf_trainer.py", "--job", machine.work / f"{name}.1.job.json", *options],
                limit_s=limit_s, needs_s=needs_s, ending="hf.json")


def timeline(machine, name):
    """The environment in which each kernel of a run is written down."""
    library = machine.bin / "libsftbench_timeline.so"
    return {"CUDA_INJECTION64_PATH": str(library), "SFTBENCH_TIMELINE": str(machine.work / f"{name}.timeline")}


# --- the parts ---------------------------------------------------------------------------------------------------------

def machine_part(machine):
    """Does the carried program load here, and what does it see?"""
    engine = machine.bin / "libsftbench_engine_cuda.so"
    yield Step("nvidia-smi", ["nvidia-smi", "-q"], limit_s=20, ending="txt", beside=True)
    yield Step("doctor", [machine.bin / "sftbench", "doctor", "--format", "json"], beside=True)
    yield Step("libraries", ["bash", "-c", f'echo "LD_LIBRARY_PATH $LD_LIBRARY_PATH"; ldd {engine}'], limit_s=20,
               ending="txt", beside=True)
    for name, options in (("tokens", []), ("natural", ["--natural"])):
        yield Step(name, [machine.python, "bench/peers/random_tokens.py", machine.work / f"{name}.jsonl", *options,
                          *machine.data_sizes()], limit_s=60, beside=True)


def kernels_part(machine):
    """Are our kernels right in machine code?"""
    for name, suites in KERNELS.items():
        yield Step(f"kernels-{name}", [machine.bin / "ops_test", f"--gtest_filter={suites}{NO_DEVICE_NEEDED}",
                                       "--gtest_output=json:OUTPUT"], ending="tests.json", beside=True)


def losses_part(machine):
    """Does it train, and are its losses the CPU's?"""
    small = {"model": "smollm2-135m", "batch_size": 2, "max_steps": 3, "model_max_length": 256}
    yield from ours(machine, "losses-bfloat16", FULL, limit_s=60, **small)
    yield from ours(machine, "losses-float32", FULL, limit_s=60, torch_dtype="float32", **small)
    on_cpu = dataclasses.replace(machine, device="cpu")
    yield from ours(on_cpu, "losses-float32-cpu", FULL, limit_s=60, torch_dtype="float32", **small)


def graphs_part(machine):
    """Does a capture hold, and what does one launch a step save?"""
    for graph in ("false", "true"):
        yield from ours(machine, f"graph-{graph}-full-135m", FULL, model="smollm2-135m", limit_s=60, batch_size=4,
                        model_max_length=2048, max_steps=6, gradient_checkpointing="false", step_graph=graph)


def ceilings_part(machine):
    """What can this machine do at best, at the shapes of the goals?"""
    size = ["--small"] if machine.rehearsal else []
    for name in ("products", "copy", "attention", "plans"):
        yield Step(f"ceilings-{name}", [machine.python, "bench/gpu/ceilings.py", name, "--device", machine.device, *size],
                   limit_s=60, needs_s=20)
    yield Step("ceilings-plans-avoided", [machine.python, "bench/gpu/ceilings.py", "plans", "--device", machine.device, *size],
               limit_s=60, needs_s=20, environment={"TORCH_CUDNN_SDPA_AVOID_RECOMPILE": "1"})


def sanitizer_part(machine):
    """Does any kernel touch memory that is not its own?"""
    for name, suites in KERNELS.items():
        if name == "attention":  # libtorch's kernels
            continue
        yield Step(f"sanitizer-{name}",
                   ["compute-sanitizer", "--tool", "memcheck", "--print-limit", "5", machine.bin / "ops_test",
                    f"--gtest_filter={suites}{NO_DEVICE_NEEDED}", "--gtest_brief=1"], limit_s=90, needs_s=30, ending="txt",
                   beside=True)


SMALL_MODEL = {"model": "smollm2-135m", "model_max_length": 2048, "batch_size": 16, "gradient_checkpointing": "false"}
LARGE_MODEL = {"model": "llama3.1-8b", "model_max_length": 4096}
LORA_8B = {**LARGE_MODEL, "batch_size": 2, "gradient_checkpointing": "false"}


def full_135m_part(machine):
    """Goal P3: full fine-tuning of 135M, 16 x 2048."""
    for graph in ("false", "true"):
        yield from ours(machine, f"full-135m-graph-{graph}", FULL, step_graph=graph, **SMALL_MODEL)
    yield from ours(machine, "full-135m-timeline", FULL, max_steps=6, environment=timeline(machine, "full-135m"),
                    **SMALL_MODEL)


def lora_8b_part(machine):
    """Goal P1: LoRA of 8B, 2 x 4096, r 16 on all linear layers."""
    yield from ours(machine, "lora-8b", LORA, *ON_ALL_LINEAR, **LORA_8B)
    yield from ours(machine, "lora-8b-timeline", LORA, *ON_ALL_LINEAR, max_steps=6, environment=timeline(machine, "lora-8b"),
                    **LORA_8B)


def peers_part(machine):
    """How many times Hugging Face Trainer's speed is that, with equal tokens and, for 135M, equal weights?"""
    equal = machine.work / "models/equal"
    yield Step("weights", [machine.python, "bench/peers/random_weights.py", machine.work / "models/rehearsal/config.json"
                           if machine.rehearsal else "smollm2-135m", equal], limit_s=60)
    for name, experiment, options, properties in (
            ("peer-full-135m", FULL, [], {**SMALL_MODEL, "model": equal}),
            ("peer-lora-8b", LORA, ON_ALL_LINEAR, LORA_8B),
            ("peer-lora-8b-checkpointing", LORA, ON_ALL_LINEAR, {**LORA_8B, "gradient_checkpointing": "true"})):
        yield from ours(machine, name, experiment, *options, **properties)
        yield peer(machine, name)


def full_8b_part(machine):
    """Goal P2: full fine-tuning of 8B. 2 x 4096 without recomputation needs 84 GiB."""
    fits = machine.memory_gib >= 100 or machine.rehearsal
    shape = {"batch_size": 2 if fits else 1, "gradient_checkpointing": "false" if fits else "true"}
    yield from ours(machine, "full-8b", FULL, max_steps=10, **LARGE_MODEL, **shape)
    yield from ours(machine, "full-8b-timeline", FULL, max_steps=4, environment=timeline(machine, "full-8b"), **LARGE_MODEL,
                    **shape)


def gptq_8b_part(machine):
    """Goal P4: GPTQ-LoRA of 8B beside LoRA, recomputed."""
    for checkpointing, batch in (("true", 4), ("false", 2)):
        for method, experiment in (("lora", LORA), ("gptq-lora", GPTQ)):
            yield from ours(machine, f"{method}-8b-float16-checkpointing-{checkpointing}", experiment, *ON_ALL_LINEAR,
                            torch_dtype="float16", batch_size=batch, max_steps=6, gradient_checkpointing=checkpointing,
                            **LARGE_MODEL)
    yield from ours(machine, "gptq-lora-8b-timeline", GPTQ, *ON_ALL_LINEAR, torch_dtype="float16", batch_size=4, max_steps=4,
                    gradient_checkpointing="true", environment=timeline(machine, "gptq-lora-8b"), **LARGE_MODEL)


def lengths_part(machine):
    """Do steps of natural lengths keep their speed?"""
    data = machine.work / "natural.jsonl"
    shape = {**SMALL_MODEL, "batch_size": 4, "max_steps": 40}
    for padding in ("longest", "max_length"):
        yield from ours(machine, f"lengths-{padding}", FULL, "--data", str(data), "--pretokenized", "--padding", padding, **shape)


def families_part(machine):
    """Does each family of kernels run? Three steps of each."""
    short = {"max_steps": 3, "model_max_length": 1024, "batch_size": 2, "limit_s": 60}
    small = {"model": "smollm2-135m", **short}
    for name, model in (("mixture", "granite-3.0-1b-a400m-base"), ("hybrid", "granite-4.0-h-1b")):
        yield from ours(machine, f"family-{name}", FULL, model=model, **short)
    for optimizer in ("paged_adamw_8bit", "adamw_8bit", "adamw_torch_4bit", "lomo"):
        yield from ours(machine, f"family-{optimizer}", FULL, optim=optimizer, **small)
    yield from ours(machine, "family-fp8", FULL, accelerate_config_mixed_precision="fp8", **small)
    yield from ours(machine, "family-packed", FULL, "--padding", "packed", **small)


def full_8b_peer_part(machine):
    """How many times Hugging Face Trainer's speed is the full fine-tuning of 8B? Trainer recomputes."""
    yield from ours(machine, "peer-full-8b", FULL, batch_size=1, gradient_checkpointing="true", max_steps=6, **LARGE_MODEL)
    yield peer(machine, "peer-full-8b")


def suites_part(machine):
    """Models, optimizers, tuning and training against their references."""
    for name, tests in SUITES.items():
        yield Step(f"suite-{name}", [machine.bin / f"{name}_test", f"--gtest_filter={tests}", "--gtest_output=json:OUTPUT"],
                   limit_s=240, needs_s=30, ending="tests.json", beside=True)


def ranks_part(machine):
    """On a machine with several GPUs: collectives by size, and ranks against one rank."""
    if machine.gpus < 2:
        return
    for count in (2, 4, 8):
        if count <= machine.gpus:
            yield Step(f"collectives-{count}", [machine.bin / "collectives_bench", "--device", machine.device, "--ranks",
                                                str(count), "--min-bytes", "65536", "--max-bytes", str(256 << 20)], ending="md")
    shape = {**SMALL_MODEL, "batch_size": 4, "torch_dtype": "float32"}
    yield from ours(machine, "two-ranks-one", FULL, gradient_accumulation_steps=2, **shape)
    for strategy in ("NO_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD"):
        yield from ours(machine, f"two-ranks-{strategy}", FULL, number_gpus=2, distributed_backend="FSDP",
                        fsdp_sharding_strategy=strategy, **{**shape, "batch_size": 8})


PARTS = {"machine": machine_part, "kernels": kernels_part, "losses": losses_part, "graphs": graphs_part,
         "ceilings": ceilings_part, "sanitizer": sanitizer_part, "full_135m": full_135m_part, "lora_8b": lora_8b_part,
         "peers": peers_part, "full_8b": full_8b_part, "gptq_8b": gptq_8b_part, "lengths": lengths_part,
         "families": families_part, "full_8b_peer": full_8b_peer_part, "suites": suites_part,
         "ranks": ranks_part}
