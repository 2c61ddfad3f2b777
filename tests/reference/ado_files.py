"""Golden files from real ado of two generations: what it makes of discovery spaces, and its CSV of measurements.

  ado/spaces.json       space files, as text: {"name", "text"}
  ado/<generation>.json for each of them what that ado says: "refused" (the error's class), or "crashed" where it takes
                        the file and falls over it later, or "experiments" and "entities" (ids in ado's order; the
                        first 40 of them and their "count")
  ado/resource-<generation>.json  a space as ado keeps it (`ado get space -o yaml`), and what it makes of it
  ado/results.json      measurements made up by hand, as result files of sftbench would hold them
  ado/csv-<generation>-<space>-<format>.csv   what `ado show entities` of 1.7, or `ado show measurements` of 2.3, writes
                        for them: --include matching, whose rows come in the order of their insertion into SQLite

usage, once for each generation, in virtual environments of their own:

  pip install --no-deps ado-core==2.3.0 ado-sfttrainer==1.8.12    # or ado-core==1.7.0 ado-sfttrainer==1.7.0
  pip install colorlog jsonpath-ng numpy pandas pydantic pymysql pyyaml ray sqlalchemy typer
  python tests/reference/ado_files.py

What the actuator needs to train (aim, transformers and more) is not needed for its catalogue, and stands in as
empty modules. No other line of ado is touched.
"""

import contextlib
import importlib.abc
import importlib.machinery
import itertools
import json
import logging
import os
import sys
import tempfile
import types
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parent / "ado"
SHOWN = 40
CORE = version("ado-core")
GENERATION = "1.7" if CORE.startswith("1.7.") else "1.8"
warnings.filterwarnings("ignore")


class Absent(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (object,), {})


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    NAMES = {"aim", "aiofiles", "anyio", "datasets", "httpx", "jwt", "psutil", "torch", "transformers"}

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.NAMES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(AbsentModules())
PACKAGE = "orchestrator" if GENERATION == "1.7" else "ado"


def ado(module, *names):
    """Those names of ado's module, whose package has another name from 2.0 on."""
    found = importlib.import_module(f"{PACKAGE}.{module}")
    return [getattr(found, name) for name in names]


# --- space files -------------------------------------------------------------------------------------------------------
FULL = "finetune_full_benchmark-v1.0.0"
LORA = "finetune_lora_benchmark-v1.0.0"
PROMPT = "finetune_pt_benchmark-v1.0.0"
GPTQ = "finetune_gptq-lora_benchmark-v1.0.0"
STABILITY = "finetune_full_stability-v1.0.0"
REQUIRED = {"model_name": "{values: [smollm2-135m]}", "number_gpus": "{values: [0]}",
            "model_max_length": "{values: [512]}", "batch_size": "{values: [1]}"}

LONG = {"gradient_checkpointing": "{values: [true, false]}", "torch_dtype": "{values: [bfloat16]}",
        "fms_hf_tuning_version": "{values: [2.8.2]}", "dataset_id": "{values: [news-tokens-16384plus-entries-4096]}",
        "fsdp_sharding_strategy": "{values: [FULL_SHARD, HYBRID_SHARD_ZERO2]}",
        "fsdp_state_dict_type": "{values: [SHARDED_STATE_DICT]}", "fsdp_use_orig_params": "{values: [true]}",
        "accelerate_config_mixed_precision": "{values: [bf16]}", "number_nodes": "{values: [1]}",
        "accelerate_config_fsdp_transformer_layer_cls_to_wrap": "{values: [LlamaDecoderLayer]}",
        "gradient_accumulation_steps": "{values: [4]}", "dataset_kwargs_skip_prepare_dataset": "{values: [false]}",
        "gradient_checkpointing_use_reentrant": "{values: [false]}", "remove_unused_columns": "{values: [true]}",
        "dataset_text_field": "{values: [output]}", "distributed_backend": "{values: [FSDP]}",
        "enable_roce": "{values: [false]}", "num_train_epochs": "{values: [1.0]}",
        "stop_after_seconds": "{values: [-1.0]}", "gpu_model": "{values: [NVIDIA-A100-80GB-PCIe]}",
        "auto_stop_method": "{values: [WARMUP_60S_STABLE_120S_OR_10_STEPS]}", "flash_attn": "{values: [true]}",
        "optim": "{values: [paged_ademamix_32bit]}"}


def experiment(identifier=FULL, more="", **parameters):
    listed = ", ".join(f"{{property: {{identifier: {name}}}, value: {value}}}" for name, value in parameters.items())
    parameterization = f", parameterization: [{listed}]" if parameters else ""
    return f"  - {{experimentIdentifier: {identifier}, actuatorIdentifier: SFTTrainer{parameterization}{more}}}\n"


def space(*experiments, store="demo", **domains):
    """A space of the required properties, with these domains instead or besides; None leaves one out."""
    text = f"sampleStoreIdentifier: {store}\n" if store is not None else ""
    text += "experiments:\n" + ("".join(experiments) or experiment()) + "entitySpace:\n"
    for name, domain in {**REQUIRED, **domains}.items():
        if domain is not None:
            text += f"  - identifier: {name}\n    propertyDomain: {domain}\n"
    return text


def spaces():
    all_spaces = {}

    def add(name, text):
        assert name not in all_spaces, name
        all_spaces[name] = text

    def domain(name, identifier, text, *experiments):
        add(name, space(*experiments, **{identifier: text}))

    add("plain", space())
    # Ranges: integers, fractions, reversed, inexact quotients, ends that rounding lets in or keeps out.
    for number, (low, high, step) in enumerate(
            [(1, 9, 2), (1, 10, 3), (8, 65, 8), (1, 2, 1), (1, 5, 7), (9, 1, 2), (64, 8, 8), ("1.0", 9, 2),
             (1, "9.0", 2), (1, 9, "2.0"), (1, 4097, 512), (100, 131, 10), (2, 2, 1), (0, 3, 1), (1, 5000, 1000),
             (1, 9, "0.5"), (1, 4, "1.5"), (1, 9, 0), (1, 9, -2), (-3, 9, 4)]):
        domain(f"range-{number}", "batch_size", f"{{domainRange: [{low}, {high}], interval: {step}}}")
    for number, (low, high, step) in enumerate(
            [(1, 4, 1), ("1.0", "4.0", "1.0"), (1, "6.5", 2), ("1.0", "1.0", "1.0"), (3, 1, 1), ("1.0", "5.7", 1)]):
        domain(f"epochs-{number}", "num_train_epochs", f"{{domainRange: [{low}, {high}], interval: {step}}}")
    domain("epochs-list", "num_train_epochs", "{values: [1, 2.0, 3]}")
    domain("epochs-one", "num_train_epochs", "{values: [1]}")
    # What this program takes and ado need not: fractions of epochs and seconds, strategies by their number.
    domain("epochs-fraction", "num_train_epochs", "{values: [0.5]}")
    domain("epochs-fraction-above-one", "num_train_epochs", "{values: [1.5, 2]}")
    domain("epochs-fractions", "num_train_epochs", "{domainRange: [0.5, 2.0], interval: 0.5}")
    domain("seconds-fraction", "stop_after_seconds", "{values: [0.5, 30]}")
    domain("sharding-number", "fsdp_sharding_strategy", "{values: [1]}")
    domain("sharding-numbers", "fsdp_sharding_strategy", "{values: [1, 2]}")
    domain("sharding-number-and-name", "fsdp_sharding_strategy", "{values: [FULL_SHARD, 2]}")
    domain("sharding-number-as-text", "fsdp_sharding_strategy", '{values: ["3"]}')
    domain("seconds", "stop_after_seconds", "{values: [-1, 30, 60.0]}")
    domain("seconds-exponent", "stop_after_seconds", "{values: [1e3]}")
    domain("seconds-exponent-float", "stop_after_seconds", "{values: [1.0e+3]}")
    domain("steps-negative", "max_steps", "{values: [-1, 5]}")
    domain("steps-range", "max_steps", "{domainRange: [-1, 4], interval: 1}")
    domain("length-range", "model_max_length", "{domainRange: [512, 4097], interval: 512}")
    # Lists.
    domain("list", "batch_size", "{values: [4, 1, 16]}")
    domain("list-with-floats", "batch_size", "{values: [1, 2.0, 4]}")
    domain("list-of-floats", "batch_size", "{values: [1.0, 2.0]}")
    domain("list-of-fractions", "batch_size", "{values: [1.5]}")
    domain("list-of-texts", "batch_size", "{values: ['1', '2']}")
    domain("list-out-of-domain", "batch_size", "{values: [5000]}")
    domain("list-null", "batch_size", "{values: [null]}")
    domain("list-empty", "batch_size", "{values: []}")
    domain("list-repeats", "batch_size", "{values: [1, 1, 2]}")
    domain("list-repeats-by-type", "batch_size", "{values: [1, 1.0, true]}")
    domain("list-and-range", "batch_size", "{values: [1, 3], domainRange: [1, 4]}")
    domain("list-and-range-without", "batch_size", "{values: [1, 3], domainRange: [1, 3]}")
    domain("list-and-interval", "batch_size", "{values: [1, 3], interval: 1}")
    domain("range-alone", "batch_size", "{domainRange: [1, 9]}")
    domain("interval-alone", "batch_size", "{interval: 2}")
    domain("nothing", "batch_size", "{}")
    domain("no-list", "batch_size", "{values: 4}")
    domain("range-of-three", "batch_size", "{domainRange: [1, 2, 3], interval: 1}")
    domain("range-of-texts", "batch_size", "{domainRange: ['1', '9'], interval: 1}")
    domain("unknown-key", "batch_size", "{value: [1]}")
    domain("uniform", "batch_size", "{values: [1], probabilityFunction: {identifier: uniform}}")
    domain("normal", "batch_size",
           "{values: [1], probabilityFunction: {identifier: normal, parameters: {mean: 2}}}")
    domain("poisson", "batch_size", "{values: [1], probabilityFunction: {identifier: poisson}}")
    # Variable types.
    for kind in ("DISCRETE", "CATEGORICAL", "OPEN_CATEGORICAL", "UNKNOWN", "IDENTIFIER", "CONTINUOUS", "BINARY"):
        domain(f"{kind.lower()}-numbers", "batch_size", f"{{values: [1, 2], variableType: {kind}_VARIABLE_TYPE}}")
        domain(f"{kind.lower()}-texts", "torch_dtype",
               f"{{values: [float16, float32], variableType: {kind}_VARIABLE_TYPE}}")
    domain("discrete-range", "batch_size", "{domainRange: [1, 4], interval: 1, variableType: DISCRETE_VARIABLE_TYPE}")
    domain("discrete-range-alone", "batch_size", "{domainRange: [1, 4], variableType: DISCRETE_VARIABLE_TYPE}")
    domain("continuous-range", "batch_size", "{domainRange: [1, 4], variableType: CONTINUOUS_VARIABLE_TYPE}")
    domain("open-nothing", "torch_dtype", "{variableType: OPEN_CATEGORICAL_VARIABLE_TYPE}")
    domain("open-unknown", "torch_dtype", "{values: [int4], variableType: OPEN_CATEGORICAL_VARIABLE_TYPE}")
    domain("open-interval", "torch_dtype",
           "{values: [float16], interval: 1, variableType: OPEN_CATEGORICAL_VARIABLE_TYPE}")
    domain("type-unknown", "batch_size", "{values: [1], variableType: DISCRETE}")
    # Booleans.
    for number, text in enumerate(
            ["{variableType: BINARY_VARIABLE_TYPE}", "{values: [true, false]}", "{values: [true]}", "{values: [0, 1]}",
             "{values: [0]}", "{values: [yes, no]}", "{values: ['true']}", "{values: [2]}", "{values: [1.0]}",
             "{values: [true], variableType: BINARY_VARIABLE_TYPE}",
             "{values: [false, true], variableType: BINARY_VARIABLE_TYPE}",
             "{domainRange: [0, 2], interval: 1, variableType: BINARY_VARIABLE_TYPE}",
             "{domainRange: [0, 2], interval: 1}", "{values: [true, false], variableType: CATEGORICAL_VARIABLE_TYPE}",
             "{values: [true, 1, false]}"]):
        domain(f"boolean-{number}", "gradient_checkpointing", text)
    domain("binary-steps", "max_steps", "{variableType: BINARY_VARIABLE_TYPE}")
    domain("boolean-batch", "batch_size", "{values: [true]}")
    # Texts, nothing, lists.
    domain("texts", "model_name", "{values: [granite-3.1-2b, smollm2-135m]}")
    domain("text-unknown", "model_name", "{values: [no-such-model]}")
    domain("text-number", "fms_hf_tuning_version", "{values: [2.8]}")
    domain("text-version", "fms_hf_tuning_version", "{values: [2.8.2, 3.0.0.1]}")
    domain("text-no", "accelerate_config_mixed_precision", "{values: [no, bf16]}")
    domain("text-quoted-no", "accelerate_config_mixed_precision", "{values: ['no', bf16]}")
    domain("null", "gpu_model", "{values: [null]}")
    domain("null-and-text", "gpu_model", "{values: [null, NVIDIA-H100-PCIe]}")
    domain("text-none", "distributed_backend", "{values: [None, FSDP]}")
    domain("null-backend", "distributed_backend", "{values: [null, FSDP]}")
    domain("kernels", "fast_kernels", "{values: [null, ['True', 'True', 'True']]}")
    domain("kernels-booleans", "fast_kernels", "{values: [[true, true, true]]}")
    domain("kernels-mixed", "fast_kernels", "{values: [['True', 'False', 'True']]}")
    domain("kernels-text", "fast_kernels", "{values: [\"['True', 'True', 'True']\"]}")
    # Properties: order, twice, unknown, missing, optional ones of all experiments, everything at once.
    add("order", space(batch_size=None, model_name=None, number_gpus=None, model_max_length=None)
        + "".join(f"  - {{identifier: {name}, propertyDomain: {text}}}\n" for name, text in
                  [("batch_size", "{values: [2, 1]}"), ("torch_dtype", "{values: [float32, bfloat16]}"),
                   ("number_gpus", "{values: [0]}"), ("gradient_checkpointing", "{values: [true, false]}"),
                   ("model_max_length", "{domainRange: [256, 769], interval: 256}"),
                   ("model_name", "{values: [smollm2-135m]}")]))
    add("twice", space() + "  - {identifier: batch_size, propertyDomain: {values: [2]}}\n")
    domain("unknown-property", "batch_sise", "{values: [1]}")
    domain("missing-property", "batch_size", None)
    add("metadata", space() + "metadata: {name: a, description: b, labels: {c: d}, anything: [1]}\n")
    add("unknown-top-key", space() + "comment: a\n")
    add("no-domain", space(batch_size=None) + "  - {identifier: batch_size}\n")
    add("unknown-member", space(batch_size=None) + "  - {identifier: batch_size, propertyDomain: {values: [1]}, a: b}\n")
    add("property-type", space(batch_size=None)
        + "  - {identifier: batch_size, propertyDomain: {values: [1]}, propertyType: CONSTITUTIVE_PROPERTY_TYPE}\n")
    for identifier in (FULL, LORA, PROMPT, GPTQ, STABILITY):
        short = identifier.split("_", 1)[1].split("-v")[0]
        domain(f"r-{short}", "r", "{values: [4, 8]}", experiment(identifier))
        add(f"alpha-{short}", space(experiment(identifier, lora_alpha=8)))
    domain("steps-of-stability", "max_steps", "{values: [5]}", experiment(STABILITY))
    domain("dtype-of-gptq", "torch_dtype", "{values: [bfloat16]}", experiment(GPTQ))
    add("long-id", space(**LONG))
    add("long-id-unicode", space(**{**LONG, "dataset_image_field": "{values: [images]}", "gpu_model": "{values: [Žluť]}"}))
    for size in (699, 700, 701):  # hashed from 701 characters on
        add(f"id-of-{size}", space(**of_length(size)))
    # Experiments and their parameterization.
    add("parameters", space(experiment(max_steps=8, flash_attn="false", fms_hf_tuning_version="2.8.2")))
    add("parameters-other-order", space(experiment(fms_hf_tuning_version="2.8.2", flash_attn="false", max_steps=8)))
    add("parameters-two", space(experiment(LORA, r=8), experiment(LORA, r=16)))
    add("parameters-types", space(experiment(stop_after_seconds=30, num_train_epochs=2, torch_dtype="float32")))
    add("parameters-floats", space(experiment(stop_after_seconds="30.0", num_train_epochs="2.0")))
    add("parameters-float-for-integer", space(experiment(max_steps="8.0")))
    add("parameter-default", space(experiment(gradient_accumulation_steps=4)))
    add("parameter-default-boolean", space(experiment(gradient_checkpointing="true")))
    add("parameter-twice", space(experiment(max_steps=8).replace("value: 8}", "value: 8}, {property: {identifier: "
                                                                              "max_steps}, value: 9}")))
    add("parameter-required", space(experiment(batch_size=4)))
    add("parameter-unknown", space(experiment(max_step=8)))
    add("parameter-out-of-domain", space(experiment(max_steps=20000)))
    add("parameter-fraction", space(experiment(max_steps="2.5")))
    add("parameter-text", space(experiment(max_steps="'8'")))
    add("parameter-list", space(experiment(fast_kernels="['True', 'True', 'True']")))
    add("parameter-list-booleans", space(experiment(fast_kernels="[true, true, true]")))
    add("parameter-null", space(experiment(dataset_text_field="null")))
    add("parameter-mapping", space(experiment(max_steps="{a: 1}")))
    add("parameter-and-dimension", space(experiment(max_steps=8), max_steps="{values: [9]}"))
    add("parameter-extra-key", space(experiment(max_steps=8).replace("value: 8}", "value: 8, comment: a}")))
    add("parameter-value-type", space(experiment(max_steps=8).replace(
        "value: 8}", "value: 8, valueType: NUMERIC_VALUE_TYPE, uncertainty: null}")))
    add("parameter-wrong-value-type", space(experiment(max_steps=8).replace(
        "value: 8}", "value: 8, valueType: STRING_VALUE_TYPE}")))
    add("parameters-empty", space(experiment(more=", parameterization: []")))
    add("parameters-null", space(experiment(more=", parameterization: null")))
    add("experiment-extra-key", space(experiment(more=", comment: a")))
    add("experiment-version", space(experiment(more=", experimentVersion: 1.0.0")))
    add("experiment-twice", space(experiment(), experiment()))
    add("experiment-twice-parameterised", space(experiment(max_steps=8), experiment(LORA, r=8),
                                                experiment(max_steps=8)))
    add("experiment-twice-reordered", space(experiment(max_steps=8, flash_attn="false"),
                                            experiment(flash_attn="false", max_steps=8)))
    add("experiments-two", space(experiment(LORA, r=8), experiment(max_steps=8), r=None))
    add("experiments-five", space(*map(experiment, (STABILITY, PROMPT, LORA, FULL, GPTQ)),
                                  batch_size="{values: [4, 2]}"))
    add("experiments-empty", space().replace("experiments:\n" + experiment(), "experiments: []\n"))
    add("experiments-missing", space().replace("experiments:\n" + experiment(), ""))
    add("experiment-unknown", space(experiment("finetune_full_benchmark-v2.0.0")))
    add("experiment-of-the-documents", space(experiment("finetune_gtpq-lora_benchmark-v1.0.0")))
    add("actuator-unknown", space(experiment().replace("SFTTrainer", "SFTrainer")))
    # The sample store.
    add("store-missing", space(store=None))
    add("store-number", space(store="70124"))
    add("store-null", space(store="null"))
    add("store-list", space(store="[a]"))
    # YAML.
    add("yaml-set", space(batch_size="{values: !!set {1, 2, 4}}"))
    add("yaml-set-of-texts", space(torch_dtype="{values: !!set {float32}}"))
    add("yaml-set-range", space(batch_size="{domainRange: !!set {1, 9}, interval: 2}"))
    add("yaml-float", space(batch_size="{values: [!!float 2, !!float '4']}"))
    add("yaml-float-of-epochs", space(num_train_epochs="{values: [!!float 2]}"))
    add("yaml-float-exponent", space(stop_after_seconds="{values: [!!float 1e2]}"))
    add("yaml-float-of-text", space(batch_size="{values: [!!float two]}"))
    add("yaml-int", space(batch_size="{values: [!!int '0x10', !!int 017, !!int 1_000]}"))
    add("yaml-int-of-float", space(batch_size="{values: [!!int 2.5]}"))
    add("yaml-str", space(fms_hf_tuning_version="{values: [!!str 2.8.2]}", batch_size="{values: [!!str 4]}"))
    add("yaml-bool", space(gradient_checkpointing="{values: [!!bool yes, !!bool 'off']}"))
    add("yaml-bool-of-number", space(gradient_checkpointing="{values: [!!bool 1]}"))
    add("yaml-null", space(gpu_model="{values: [!!null anything]}"))
    add("yaml-binary", space(torch_dtype="{values: [!!binary ZmxvYXQzMg==]}"))
    add("yaml-omap", space(batch_size="{values: !!omap [a: 1]}"))
    add("yaml-unknown-tag", space(batch_size="{values: [!size 4]}"))
    add("yaml-python-tag", space(batch_size="{values: !!python/tuple [4]}"))
    add("yaml-numbers", space(batch_size="{values: [0x10, 0b101, 010, 1_0, 1:04, +3]}"))
    add("yaml-cr", space(batch_size="{values: [1, 2]}").replace("\n", "\r"))
    add("yaml-crlf", space(batch_size="{values: [1, 2]}").replace("\n", "\r\n"))
    add("yaml-cr-mixed", space(batch_size="{values: [1, 2]}").replace("\n", "\r", 3))
    add("yaml-nel", space(batch_size="{values: [1, 2]}").replace("\n", "\u0085"))
    add("yaml-anchors", space(batch_size="&sizes {values: [1, 2]}", gradient_accumulation_steps="*sizes"))
    add("yaml-merge", space(batch_size="&sizes {values: [1, 2]}", gradient_accumulation_steps="{<<: *sizes}"))
    add("yaml-repeated-key", space(batch_size="{values: [1], values: [2]}"))
    add("yaml-two-documents", space() + "---\n" + space())
    add("yaml-document-end", "---\n" + space() + "...\n")
    add("yaml-tab", space().replace("    propertyDomain", "\tpropertyDomain", 1))
    add("yaml-comment", "# a space\n" + space().replace("[512]}", "[512]}  # tokens", 1))
    add("yaml-list", "- a\n")
    add("yaml-empty", "")
    return all_spaces


def of_length(size):
    """LONG without some of its properties, so that the id of the first entity has exactly `size` characters."""
    def length(domains):
        parts = []
        for name, text in {**REQUIRED, **domains}.items():
            value = text.split("[", 1)[1].split("]")[0].split(",")[0]
            parts.append(f"{name}." + {"true": "1", "false": "0"}.get(value, value))
        return len("-".join(parts))

    for dropped in itertools.chain.from_iterable(itertools.combinations(LONG, n) for n in range(len(LONG))):
        kept = {name: text for name, text in LONG.items() if name not in dropped}
        if length(kept) == size:
            return kept
    raise RuntimeError(f"no id of {size} characters")


# --- what ado says -----------------------------------------------------------------------------------------------------
def verdict(text):
    import yaml

    (Configuration,) = ado("core.discoveryspace.config", "DiscoverySpaceConfiguration")
    (EntitySpace,) = ado("schema.entityspace", "EntitySpaceRepresentation")
    (MeasurementSpace,) = ado("schema.measurementspace", "MeasurementSpace")
    (Generator, Mode) = ado("core.discoveryspace.samplers", "ExplicitEntitySpaceGridSampleGenerator", "WalkModeEnum")

    # As `ado create space` reads and checks it.
    stage = "refused"
    try:
        configuration = Configuration.model_validate(yaml.safe_load(text))
        entity_space = EntitySpace.representationFromConfiguration(configuration.entitySpace)
        measurement_space = MeasurementSpace.measurementSpaceFromSelection(configuration.experiments)
        measurement_space.checkEntitySpaceCompatible(entity_space)
        # As an operation walks through it.
        stage = "crashed"
        count = entity_space.size
        walk = Generator(Mode.SEQUENTIAL).entitySpaceIterator(entity_space, batchsize=1)
        entities = [batch[0].identifier for batch in itertools.islice(walk, SHOWN)]
        return {"experiments": [str(e) for e in measurement_space.experimentReferences], "count": count,
                "entities": entities}
    except Exception as error:
        return {stage: type(error).__name__}


def verdicts(all_spaces):
    rows = {}
    for name, text in all_spaces.items():
        with open(os.devnull, "w") as silence:  # ado prints what it refuses
            with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
                rows[name] = verdict(text)
    return rows


# --- measurements ------------------------------------------------------------------------------------------------------
TARGETS = [
    "is_valid", "dataset_tokens_per_second_per_gpu", "train_runtime", "dataset_tokens_per_second",
    "train_samples_per_second", "train_steps_per_second", "train_tokens_per_second", "train_tokens_per_gpu_per_second",
    "cpu_compute_utilization", "cpu_memory_utilization", "gpu_compute_utilization_min", "gpu_compute_utilization_avg",
    "gpu_compute_utilization_max", "gpu_memory_utilization_min", "gpu_memory_utilization_avg",
    "gpu_memory_utilization_max", "gpu_memory_utilization_peak", "gpu_power_watts_min", "gpu_power_watts_avg",
    "gpu_power_watts_max", "gpu_power_percent_min", "gpu_power_percent_avg", "gpu_power_percent_max"]


def figures(seed, without=()):
    numbers = np.random.default_rng(seed).normal(50, 20, len(TARGETS))
    values = {name: float(abs(number)) for name, number in zip(TARGETS, numbers) if name not in without}
    return {**values, "is_valid": 1}


def outcome(kind, seed):
    if kind == "stability":
        return {"f_gpu_oom": 0.2, "f_other_error": 0.0, "f_no_error": 0.8, "is_valid": 1}
    if kind == "short":  # what is left when a run stops early
        return figures(seed, ("train_tokens_per_second", "train_tokens_per_gpu_per_second"))
    return {"is_valid": 0} if kind == "invalid" else figures(seed)


# name -> (text of the space, the outcome of each measurement: entity after entity, each under every experiment)
CAMPAIGNS = {
    "two": (space(experiment(max_steps=8), experiment(LORA, r=8), batch_size="{values: [4, 1, 2]}",
                  torch_dtype="{values: [float32, bfloat16]}"), []),
    "ranges": (space(experiment(LORA, lora_alpha=8, r=8), experiment(LORA, lora_alpha=8, r=16), experiment(LORA),
                     batch_size="{domainRange: [1, 10], interval: 3}", num_train_epochs="{values: [1, 2.0]}",
                     gradient_checkpointing="{variableType: BINARY_VARIABLE_TYPE}"), ["short"]),
    "invalid-first": (space(experiment(max_steps=8), experiment(PROMPT), gpu_model="{values: [null, NVIDIA-H100-PCIe]}",
                            fast_kernels="{values: [['True', 'True', 'True'], null]}"),
                      ["invalid", "valid", "invalid", "short", "valid"]),
    "stability": (space(experiment(STABILITY), experiment(), batch_size="{values: [16, 2]}"),
                  ["stability", "valid", "invalid", "short"]),
    "five": (space(*map(experiment, (PROMPT, LORA, FULL, GPTQ, STABILITY)), number_gpus="{values: [1, 0]}",
                   gpu_model="{values: [NVIDIA-A100-80GB-PCIe]}"),
             ["valid", "valid", "short", "invalid", "stability"]),
    "failed": (space(experiment(), experiment(torch_dtype="float32"), batch_size="{values: [1, 2, 4]}"),
               ["failed", "valid", "valid", "failed", "failed", "failed"]),
    "long": (space(experiment(), experiment(LORA), **LONG), []),
}


def campaign(text, outcomes, directory):
    """The space in a store of its own, every measurement in it; and a row for each measurement, in order."""
    import yaml

    (Configuration,) = ado("core.discoveryspace.config", "DiscoverySpaceConfiguration")
    (DiscoverySpace,) = ado("core.discoveryspace.space", "DiscoverySpace")
    (Generator, Mode) = ado("core.discoveryspace.samplers", "ExplicitEntitySpaceGridSampleGenerator", "WalkModeEnum")
    (EntitySpace,) = ado("schema.entityspace", "EntitySpaceRepresentation")
    (MeasurementSpace,) = ado("schema.measurementspace", "MeasurementSpace")
    (Value,) = ado("schema.observed_property", "ObservedPropertyValue")
    (Valid, Invalid) = ado("schema.result", "ValidMeasurementResult", "InvalidMeasurementResult")
    (Request, State) = ado("schema.request", "MeasurementRequest", "MeasurementRequestStateEnum")
    (Project,) = ado("metastore.project", "ProjectContext")
    (Store,) = ado("core.samplestore.sql", "SQLSampleStore")
    (Location,) = ado("utilities.location", "SQLiteStoreConfiguration")

    configuration = Configuration.model_validate(yaml.safe_load(text))
    location = Location(path=str(directory / "demo.db"))
    store = Store(identifier="demo", storageLocation=location, parameters={})
    context = Project(project="demo", metadataStore=location)
    discovery = DiscoverySpace(
        project_context=context, identifier="space-demo", sample_store=store,
        entitySpace=EntitySpace.representationFromConfiguration(configuration.entitySpace),
        measurementSpace=MeasurementSpace.measurementSpaceFromSelection(configuration.experiments))
    rows = []
    walk = Generator(Mode.SEQUENTIAL).entitySpaceIterator(discovery.entitySpace, batchsize=1)
    kinds = itertools.cycle(outcomes or ["valid"])
    for batch in walk:
        for reference, kind in zip(discovery.measurementSpace.experimentReferences, kinds):
            (entity,) = batch
            number = len(rows)
            if kind == "failed":
                result = Invalid(entityIdentifier=entity.identifier, experimentReference=reference, reason="made up")
            else:
                values = outcome(kind, number)
                properties = discovery.measurementSpace.observedPropertiesForExperimentReference(reference)
                result = Valid(entityIdentifier=entity.identifier, measurements=[
                    Value(value=values[p.targetProperty.identifier], property=p,
                          valueType="NUMERIC_VALUE_TYPE")
                    for p in properties if p.targetProperty.identifier in values])
            request = Request(operation_id="operation-demo", requestIndex=number, experimentReference=reference,
                              entities=[entity], requestid=f"r{number}", measurements=(result,),
                              status=State.FAILED if kind == "failed" else State.SUCCESS)
            discovery.addMeasurement(request)
            rows.append({"entity": number // len(discovery.measurementSpace.experimentReferences),
                         "experiment": number % len(discovery.measurementSpace.experimentReferences),
                         "status": kind if kind in ("failed", "invalid") else "valid",
                         "measured": {} if kind == "failed" else values})
    # As another process would read it: nothing of what was written is in memory.
    discovery._sample_store = Store(identifier="demo", storageLocation=location, parameters={})
    return discovery, rows


def write_rows(name, rows):
    text = ",\n".join(json.dumps(row) for row in rows)
    (OUT / name).write_text("[\n" + text + "\n]\n")


def csv_files():
    results = []
    for name, (text, outcomes) in CAMPAIGNS.items():
        with tempfile.TemporaryDirectory() as directory:
            discovery, rows = campaign(text, outcomes, Path(directory))
            for layout in ("target", "observed"):
                table = discovery.matchingEntitiesTable(property_type=layout)
                table.to_csv(OUT / f"csv-{GENERATION}-{name}-{layout}.csv")
        results.append({"name": name, "text": text, "measurements": rows})
    write_rows("results.json", results)


def resource():
    import yaml

    text = space(experiment(max_steps=8, flash_attn="false"), experiment(LORA),
                 batch_size="{domainRange: [1, 6], interval: 2}",
                 gradient_checkpointing="{variableType: BINARY_VARIABLE_TYPE}")
    with tempfile.TemporaryDirectory() as directory:
        discovery, _ = campaign(text, [], Path(directory))
        stored = json.loads(discovery.resource.model_dump_json())
    stored["created"] = stored["status"][0]["recorded_at"] = "2026-11-22T12:00:00.000000Z"
    row = {"text": yaml.safe_dump(stored, width=4000), **verdict(text)}
    (OUT / f"resource-{GENERATION}.json").write_text(json.dumps(row) + "\n")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    OUT.mkdir(exist_ok=True)
    all_spaces = spaces()
    write_rows("spaces.json", [{"name": name, "text": text} for name, text in all_spaces.items()])
    write_rows(f"{GENERATION}.json", [{"name": name, **row} for name, row in verdicts(all_spaces).items()])
    csv_files()
    resource()
    print(f"ado-core {CORE}: {len(all_spaces)} spaces, {len(CAMPAIGNS)} campaigns")
