"""Random weights of a model's shapes under Hugging Face Trainer: one process of compare.py or of bench/gpu/run.py.

The work is SmolLM2-135M's, or that of a job that `sftbench run --dry-run` printed (--job): same shapes, dtype, entries
per step, length, checkpointing, number of steps and adapters. Weights and token ids are the job's where it names them,
otherwise random. Prints one JSON line: seconds and loss of each optimization step, age of the process when the first had
ended, peak memory.
"""
import argparse
import importlib.util
import io
import json
import os
import tempfile
import time


def process_age_s():
    with open("/proc/self/stat") as stat:
        start_ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


SMOLLM2_135M = {"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
                "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
                "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000.0,
                "tie_word_embeddings": True}


def options_from(arguments):
    """The command line; --job replaces what it says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--peft", choices=["none", "lora", "pt"], default="none",
                        help="LoRA on q_proj and v_proj (r 4, alpha 16, dropout 0.05), or 8 virtual tokens")
    parser.add_argument("--config", help="a config.json in place of SmolLM2-135M's")
    parser.add_argument("--experts", help="experts_implementation of transformers, eager for its loop over experts")
    parser.add_argument("--without-liger", action="store_true")
    parser.add_argument("--job")
    options = parser.parse_args(arguments)
    options.batch_size, options.accumulation, options.device = 1, 1, "cpu"
    options.lora = {"rank": 4, "alpha": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]}
    options.virtual_tokens, options.weights, options.data, options.quantization = 8, None, None, None
    options.image_field, options.text_field = "", ""
    if options.config:
        with open(options.config) as file:
            options.config = json.load(file)
    else:
        options.config = SMOLLM2_135M
    if options.job:
        with open(options.job) as file:
            job = json.load(file)
        options.config = job["model"]["hf_config"]
        options.dtype = job["precision"]["torch_dtype"]
        options.length = job["data"]["model_max_length"]
        options.steps = job["batches"]["max_steps"]
        options.batch_size = job["batches"]["per_device_batch_size"]
        options.accumulation = job["batches"]["gradient_accumulation_steps"]
        options.checkpointing = job["activations"]["gradient_checkpointing"]
        options.device = job["device"]["kind"]
        options.peft = {"full": "none", "qlora": "lora"}.get(job["tuning"], job["tuning"])
        options.quantization = options.config.get("quantization_config")
        options.weights = job["model"]["weights_directory"]
        options.image_field, options.text_field = job["data"]["image_field"], job["data"]["text_field"]
        options.data = job["data"]["path"] if job["data"]["pretokenized"] or options.image_field else None
        options.lora, options.virtual_tokens = job["lora"], job["prompt"]["virtual_tokens"]
    return options


def with_adapters(model, options):
    """As fms-hf-tuning hands it to Trainer: peft's defaults, inputs that carry gradients under checkpointing."""
    from peft import LoraConfig, PromptTuningConfig, get_peft_model
    if options.peft == "lora":
        plan = options.lora
        targets = plan["target_modules"]
        config = LoraConfig(task_type="CAUSAL_LM", r=plan["rank"], lora_alpha=plan["alpha"], lora_dropout=plan["dropout"],
                            target_modules="all-linear" if targets == ["all-linear"] else targets)
    else:
        config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=options.virtual_tokens)
    if options.checkpointing:
        model.enable_input_require_grads()
    return get_peft_model(model, config)


def entries_of(options, vocabulary, torch):
    """The job's pictures and texts or token ids, cut to its length, or random ones."""
    if options.image_field:
        import pyarrow.parquet
        return pyarrow.parquet.read_table(options.data).to_pylist()
    if options.data:
        with open(options.data) as file:
            rows = [torch.tensor(json.loads(line)["input_ids"][:options.length]) for line in file]
    else:
        generator = torch.Generator().manual_seed(42)
        count = options.steps * options.batch_size * options.accumulation
        rows = torch.randint(4, vocabulary, (count, options.length), generator=generator)
    return [{"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)} for row in rows]


def model_class(config):
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
    return AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM


def collator_of(options):
    """None, which is Trainer's, or images and texts through the model's processor, with the labels of fms-hf-tuning."""
    if not options.image_field:
        return None
    from PIL import Image
    from transformers import AutoProcessor
    processor = AutoProcessor.from_pretrained(options.weights, backend="pil")

    def collate(entries):
        images = [[Image.open(io.BytesIO(image["bytes"])).convert("RGB") for image in entry[options.image_field]]
                  for entry in entries]
        batch = processor(text=[entry[options.text_field] for entry in entries], images=images, return_tensors="pt",
                          padding=True)
        ids = batch["input_ids"]
        assert ids.shape[1] <= options.length, f"{ids.shape[1]} tokens"
        unlearned = (ids == processor.tokenizer.pad_token_id) | (ids == processor.image_token_id)
        batch["labels"] = ids.masked_fill(unlearned, -100)
        return batch
    return collate


def main():
    options = options_from(None)
    if options.device == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]  # else DataParallel

    import torch
    from transformers import AutoConfig, Trainer, TrainerCallback, TrainingArguments

    settings = {key: value for key, value in options.config.items() if key != "model_type"}
    config = AutoConfig.for_model(options.config["model_type"], **settings)
    config.use_cache = False
    if options.experts:
        config._experts_implementation = options.experts
    cuda = options.device == "cuda"
    auto_class, attention = model_class(config), "eager" if getattr(config, "attn_logit_softcapping", None) else "sdpa"
    with torch.device(options.device):
        if options.weights:
            more = {}
            if options.quantization:
                from transformers import BitsAndBytesConfig
                more["quantization_config"] = BitsAndBytesConfig(
                    load_in_4bit=True, bnb_4bit_compute_dtype=getattr(torch, options.dtype),
                    **{key: value for key, value in options.quantization.items() if key.startswith("bnb_")})
            model = auto_class.from_pretrained(options.weights, dtype=getattr(torch, options.dtype),
                                               attn_implementation=attention, **more).to(options.device)
        else:
            model = auto_class.from_config(config, dtype=getattr(torch, options.dtype), attn_implementation=attention)
    if options.peft != "none":
        model = with_adapters(model, options)
    entries_per_step = options.batch_size * options.accumulation
    entries = entries_of(options, config.get_text_config().vocab_size, torch)

    class Clock(TrainerCallback):
        seconds, first_step_process_age_s = [], 0.0

        def synchronize(self):
            if cuda:
                torch.cuda.synchronize()

        def on_step_begin(self, args, state, control, **kwargs):
            self.synchronize()
            # Trainer makes a batch before this call. Where that takes long, a step begins where the last one ended.
            self.begin = self.end if options.image_field and self.seconds else time.monotonic()

        def on_step_end(self, args, state, control, **kwargs):
            self.synchronize()
            self.end = time.monotonic()
            self.seconds.append(self.end - self.begin)
            self.first_step_process_age_s = self.first_step_process_age_s or process_age_s()

    clock = Clock()
    unused = tempfile.TemporaryDirectory()
    arguments = TrainingArguments(
        output_dir=unused.name, use_cpu=not cuda, per_device_train_batch_size=options.batch_size,
        gradient_accumulation_steps=options.accumulation, max_steps=options.steps, learning_rate=1e-5,
        warmup_steps=0.03, lr_scheduler_type="cosine", optim="adamw_torch_fused", max_grad_norm=1.0, weight_decay=0.0,
        seed=42, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
        gradient_checkpointing=options.checkpointing, remove_unused_columns=not options.image_field,
        use_liger_kernel=cuda and not options.without_liger and importlib.util.find_spec("liger_kernel") is not None)
    trainer = Trainer(model=model, args=arguments, train_dataset=entries, data_collator=collator_of(options),
                      callbacks=[clock])
    trainer.train()
    positions = options.length + (options.virtual_tokens if options.peft == "pt" else 0)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(json.dumps({"step_seconds": clock.seconds, "losses": losses, "tokens_per_step": positions * entries_per_step,
                      "first_step_process_age_s": clock.first_step_process_age_s, "peak_rss_bytes": peak_rss_bytes(),
                      "device_peak_allocated_bytes": torch.cuda.max_memory_allocated() if cuda else None,
                      "liger": arguments.use_liger_kernel, "torch": torch.__version__, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
