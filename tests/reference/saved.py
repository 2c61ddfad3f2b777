#!/usr/bin/env python3
"""Golden cases of what is done with saved models: adapters over vocabularies, merges, and losses behind virtual tokens.

Writes saved/:
  CASE/         an adapter as peft saves it, of the embedding, of the head, or with rows that were added, and logits.safetensors:
                input_ids and the logits of peft's model before it is merged
  prompt.json   Trainer over peft's prompt tuning on entries of which every token bears loss, the first among them
  decays.json   which parameters Trainer decays, of the vision models

Made with peft 0.21, transformers 5.17, torch 2.11:  python saved.py
What BUILD/bin/sftbench saves and merges, with and without special tokens, in transformers and peft:
                                                     python saved.py --check BUILD/bin/sftbench
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer, LlamaConfig, LlamaForCausalLM,
                          PreTrainedTokenizerFast, Trainer, TrainingArguments)

import adapters
from training import FOLDER as TRAINING
from training import MAX_LENGTH, Recorder, make_collator

FOLDER = Path(__file__).parent / "saved"
ADDED_ROWS = 3

# name: base, settings of LoRA
CASES = {
    "embedding-tied": ("llama", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"])),
    "embedding-untied": ("llama_all", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"])),
    "vocabulary-tied": ("llama", dict(target_modules=["q_proj", "embed_tokens", "lm_head"])),
    "rows-tied": ("llama", dict(target_modules=["q_proj"])),
}


def make_adapter(name):
    base, settings = CASES[name]
    folder = FOLDER / name
    torch.manual_seed(11)
    model = AutoModelForCausalLM.from_pretrained(TRAINING / base, dtype=torch.float32)
    rows = model.config.vocab_size
    if name.startswith("rows"):
        model.resize_token_embeddings(rows + ADDED_ROWS)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=6, lora_dropout=0.0, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0, 0.1)
    # Without that peft adds the base's own embeddings, whose values nobody changed.
    model.save_pretrained(folder, save_embedding_layers="auto" if name.startswith("rows") else False)
    (folder / "README.md").unlink(missing_ok=True)
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    config["base_model_name_or_path"] = None  # a path of the machine that this ran on
    config["target_modules"].sort()
    file.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    input_ids = torch.tensor([[5, 77, 300, 12, 4, rows - 1 + (ADDED_ROWS if name.startswith("rows") else 0)]])
    with torch.no_grad():
        logits = model.eval()(input_ids=input_ids).logits
    save_file({"input_ids": input_ids, "logits": logits.contiguous()}, folder / "logits.safetensors")


def make_prompt():
    tokenizer = AutoTokenizer.from_pretrained(TRAINING / "tokenizer")
    texts = [json.loads(line)["output"] for line in (TRAINING / "dataset.jsonl").read_text().splitlines()]
    entries = [tokenizer(text + tokenizer.eos_token)["input_ids"][:MAX_LENGTH] for text in texts]
    entries = [{"input_ids": ids, "labels": ids} for ids in entries]
    torch.manual_seed(5)
    base = AutoModelForCausalLM.from_pretrained(TRAINING / "llama", dtype=torch.float32)
    model = get_peft_model(base, adapters.prompt("TEXT"))
    recorder, settings = Recorder(), {**adapters.PROMPT_SETTINGS, "max_steps": 4}
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, optim="adamw_torch_fused", logging_steps=1,
                                  save_strategy="no", report_to="none", disable_tqdm=True, remove_unused_columns=False,
                                  eval_strategy="steps", eval_steps=4, per_device_eval_batch_size=4, **settings)
    trainer = Trainer(model=model, args=arguments, train_dataset=entries, eval_dataset=entries, callbacks=[recorder],
                      data_collator=make_collator(tokenizer.pad_token_id))
    trainer.train()
    evaluated = [log["eval_loss"] for log in trainer.state.log_history if "eval_loss" in log]
    # Over all positions that bear loss, entry by entry, from the logits. Virtual tokens predict the first token.
    loss = tokens = 0
    for entry in entries:
        ids = torch.tensor([entry["input_ids"]])
        with torch.no_grad():
            logits = model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
        predicting = logits[-1 - ids.shape[1]:-1]
        loss += torch.nn.functional.cross_entropy(predicting.double(), ids[0], reduction="sum").item()
        tokens += ids.shape[1]
    golden = {"model": "llama", "torch_dtype": "float32", "autocast": "no", "settings": settings,
              "model_max_length": MAX_LENGTH, "steps": recorder.steps, "eval_batch": 4, "eval_loss": evaluated[-1],
              "token_loss": loss / tokens, "tokens": tokens}
    (FOLDER / "prompt.json").write_text(json.dumps(golden, indent=1) + "\n")


def make_decays():
    decays = {}
    for name in ("llava_clip", "llava_siglip"):
        model = AutoModelForImageTextToText.from_pretrained(TRAINING / name)
        decaying = set(Trainer.get_decay_parameter_names(None, model))
        decays[name] = {parameter: parameter in decaying for parameter, _ in model.named_parameters()}
    (FOLDER / "decays.json").write_text(json.dumps(decays, indent=1) + "\n")


# --- what this program saves ---------------------------------------------------------------------

WORDS = ["the river runs by the stone bridge", "early market copper signal", "harvest window paper train silver"]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
HAVING = {"all": SPECIAL, "no pad": {k: v for k, v in SPECIAL.items() if k != "pad_token"},
          "bos, eos": {k: SPECIAL[k] for k in ("bos_token", "eos_token")}, "eos": {"eos_token": "</s>"}, "none": {}}


def make_base(folder, special, tied):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    bpe.train_from_iterator(WORDS, trainers.BpeTrainer(vocab_size=300, special_tokens=list(special.values()),
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, **special)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                 num_key_value_heads=2, vocab_size=len(tokenizer), tie_word_embeddings=tied,
                                 initializer_range=0.3)).save_pretrained(folder)


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")


@torch.no_grad()
def logits_of(model, batch):
    """At real positions of a padded batch: a token without a row would be an index error here."""
    return model.eval()(**batch).logits[batch["attention_mask"].bool()]


def check_one(sftbench, root, having, tied, method):
    base, out = root / "base", root / "out"
    make_base(base, HAVING[having], tied)
    data = root / "data.jsonl"
    data.write_text("".join(json.dumps({"text": f"{a} {b}"}) + "\n" for a in WORDS for b in WORDS))
    settings = [f"--set={each}" for each in ("number_gpus=0", "max_steps=3", "batch_size=2", "model_max_length=64",
                                             "torch_dtype=float32")]
    run(sftbench, "run", "--model", base, "--data", data, "--text-field", "text", "--response-template", "None",
        "--experiment", f"finetune_{method}_benchmark-v1.0.0", *settings, "--learning-rate", "0.05",
        *(["--lora-targets", "all-linear"] if method == "lora" else []), "--save-model-dir", out, "-o", root / "results")
    tokenizer = AutoTokenizer.from_pretrained(out)
    batch = tokenizer(["the river", "harvest window paper"], padding=True, padding_side="right", return_tensors="pt",
                      return_token_type_ids=False)
    if method == "full":
        model = AutoModelForCausalLM.from_pretrained(out)
        logits_of(model, batch)
        return len(tokenizer), model.get_input_embeddings().weight.shape[0], 0.0
    plain = AutoModelForCausalLM.from_pretrained(base)
    if len(tokenizer) > plain.get_input_embeddings().weight.shape[0]:  # rows travel
        plain.resize_token_embeddings(len(tokenizer))
    expected = logits_of(PeftModel.from_pretrained(plain, out), batch)
    run(sftbench, "weights", "merge", out, "--model", base, "-o", root / "merged")
    merged = AutoModelForCausalLM.from_pretrained(root / "merged")
    again = [AutoPeftModelForCausalLM.from_pretrained(out), merged]
    worst = max((logits_of(model, batch) - expected).abs().max().item() for model in again)
    return len(tokenizer), merged.get_input_embeddings().weight.shape[0], worst


def check(sftbench):
    wrong = 0
    for having in HAVING:
        for tied in (True, False):
            for method in ("full", "lora"):
                with tempfile.TemporaryDirectory() as name:
                    tokens, rows, worst = check_one(sftbench, Path(name), having, tied, method)
                wrong += tokens > rows or worst > 5e-5
                print(f"special tokens: {having:9} {'tied' if tied else 'untied':6} {method}: {tokens} tokens, {rows} rows, "
                      f"logits of saved, merged and reloaded within {worst:.1e}", flush=True)
    sys.exit(1 if wrong else 0)


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(sys.argv[2])
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name in CASES:
        make_adapter(name)
    make_prompt()
    make_decays()


if __name__ == "__main__":
    main()
