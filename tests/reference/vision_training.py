#!/usr/bin/env python3
"""Golden training runs on images: ten optimization steps of the real Hugging Face Trainer on tiny random LLaVA-NeXT models, and on
Idefics3 and SmolVLM, whose weights follow the rule of drawn.py.

Writes into training/: llava_*/ (checkpoint, tokenizer, image processor), vision.parquet, and per case what Trainer logged, as
training.py does. Entries go through the model's processor and the masks of fms-hf-tuning's VisionDataCollator.

usage: PYTHONPATH=<folder of pyarrow> python3 tests/reference/vision_training.py [adapters | squares]
adapters: LoRA and prompt tuning by peft alone, into adapters/. Of the latter, the prompt that training ends with, and no prompt before.
squares: Idefics3 and SmolVLM alone, on the vision.parquet that is there, with LoRA, too, and the ids of the first entries.
Made with transformers 5.23, torch 2.15, Pillow 13.0, pyarrow 26.0; squares with transformers 5.24, pyarrow 25.0.
"""
import io
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

import peft
import pyarrow
import pyarrow.parquet
import torch
import transformers
from peft import get_peft_model
from PIL import Image
from transformers import (Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor, LlavaNextConfig,
                          LlavaNextForConditionalGeneration, LlavaNextProcessor, PreTrainedTokenizerFast, SmolVLMConfig,
                          SmolVLMForConditionalGeneration, SmolVLMProcessor, SmolVLMVideoProcessor, Trainer, TrainingArguments)
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_CHAT_TEMPLATE

from adapters import FOLDER as ADAPTERS
from adapters import LORA_SETTINGS, PROMPT_SETTINGS, lora, prompt, save
from drawn import save_drawn
from training import FOLDER, SETTINGS, SMALL, Recorder
from vision_data import LLAVA_MISTRAL, encoded, picture, runs
from vision_models import CLIP, SIGLIP, image_processor, randomise

ENTRIES, IMAGE_TOKEN, MAX_LENGTH = 26, "<image>", 512
# Pillow 13 resamples some tall images column by column first, which rounds elsewhere. These go row by row, as in all versions.
SIZES = [(12, 12), (20, 31), (11, 7), (9, 64)]


def config(text, vision, **options):
    return LlavaNextConfig(
        text_config={**SMALL, "vocab_size": 400, "pad_token_id": None, **text}, vision_config=vision,
        image_token_index=384, image_grid_pinpoints=[[12, 12], [12, 24], [24, 12], [24, 24], [12, 36]], **options)


# name: (configuration, column of the texts, settings beyond training.py's)
CASES = {
    "llava_clip": (config(dict(model_type="mistral", tie_word_embeddings=False), CLIP), "messages"),
    "llava_siglip": (config(
        dict(model_type="granite", embedding_multiplier=6.0, attention_multiplier=0.08, residual_multiplier=0.4,
             logits_scaling=3.0), SIGLIP, vision_feature_layer=[-4, -1], vision_feature_select_strategy="full",
        tie_word_embeddings=True), "text"),
}

SQUARES_TEXT = {**SMALL, "model_type": "llama", "vocab_size": 400, "initializer_range": 0.125}
SQUARES_TOWER = dict(hidden_size=18, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, image_size=12, patch_size=3)
# Each place of a tile is a token in SmolVLM's vocabulary, and a text in that of Idefics3-8B.
PLACES = [f"<row_{row + 1}_col_{column + 1}>" for row in range(3) for column in range(3)]
AROUND = ["<fake_token_around_image>", "<end_of_utterance>"]
# name: (classes, configuration, tokens behind the placeholder, column of the texts)
SQUARES_CASES = {
    "smolvlm": ((SmolVLMForConditionalGeneration, SmolVLMProcessor, SmolVLMImageProcessorPil), SmolVLMConfig(
        vision_config=SQUARES_TOWER, text_config={**SQUARES_TEXT, "tie_word_embeddings": False}, image_token_id=384, scale_factor=2),
        [*AROUND, "<global-img>", "<|im_start|>", *PLACES], "messages"),
    "idefics3": ((Idefics3ForConditionalGeneration, Idefics3Processor, Idefics3ImageProcessorPil), Idefics3Config(
        vision_config=SQUARES_TOWER, text_config=SQUARES_TEXT, image_token_id=384, scale_factor=2, tie_word_embeddings=True),
        AROUND, "text"),
}


def rows():
    rng = random.Random(11)
    words = "river stone bridge early market copper signal harvest window paper train garden".split()
    pick = lambda low, high: " ".join(rng.choice(words) for _ in range(rng.randint(low, high)))
    for index in range(ENTRIES):
        count = 2 if index == 3 else 1
        images = [picture(*SIZES[(index + i) % len(SIZES)], index) for i in range(count)]
        messages = [{"role": "user", "content": [{"type": "text", "text": pick(2, 6)}] + [{"type": "image", "text": None}] * count},
                    {"role": "assistant", "content": [{"type": "text", "text": pick(3, 20)}]}]
        files = [encoded(Image.fromarray(image), format="PNG" if index % 2 else "JPEG") for image in images]
        yield {"messages": messages, "text": IMAGE_TOKEN * count + pick(2, 5) + " : " + pick(3, 15),
               "images": [{"bytes": file, "path": None} for file in files]}


def make_processor(model_config, folder):
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER / "tokenizer")
    while len(tokenizer) < model_config.image_token_index:
        tokenizer.add_tokens([f"<unused{len(tokenizer)}>"], special_tokens=True)
    tokenizer.add_tokens([IMAGE_TOKEN], special_tokens=True)
    assert tokenizer.convert_tokens_to_ids(IMAGE_TOKEN) == model_config.image_token_index
    tokenizer.save_pretrained(folder)
    images = image_processor(model_config)
    images.save_pretrained(folder)
    clip = model_config.vision_config.model_type == "clip_vision_model"
    return LlavaNextProcessor(image_processor=images, tokenizer=tokenizer, patch_size=model_config.vision_config.patch_size,
                              vision_feature_select_strategy=model_config.vision_feature_select_strategy,
                              num_additional_image_tokens=int(clip), chat_template=LLAVA_MISTRAL)


def make_collator(processor, column):
    def collate(entries):
        texts = [entry[column] if isinstance(entry[column], str)
                 else processor.apply_chat_template(entry[column], tokenize=False) for entry in entries]
        images = [[Image.open(io.BytesIO(image["bytes"])).convert("RGB") for image in entry["images"]] for entry in entries]
        batch = processor(text=texts, images=images, return_tensors="pt", padding=True)
        labels = batch["input_ids"].clone()
        labels[labels == processor.tokenizer.pad_token_id] = -100
        labels[labels == processor.tokenizer.convert_tokens_to_ids(processor.image_token)] = -100
        batch["labels"] = labels
        return batch
    return collate


class Entries(torch.utils.data.Dataset):
    def __init__(self, entries):
        self.entries = entries

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        return self.entries[index]


def train(model, entries, collate, settings):
    recorder = Recorder()
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, logging_steps=1, save_strategy="no", report_to="none",
                                  disable_tqdm=True, gradient_checkpointing=True, optim="adamw_torch_fused",
                                  gradient_checkpointing_kwargs={"use_reentrant": False}, remove_unused_columns=False, **settings)
    Trainer(model=model, args=arguments, train_dataset=Entries(entries), data_collator=collate, callbacks=[recorder]).train()
    assert len(recorder.steps) == 10
    return recorder.steps


def read_processor(name):
    """That of a folder that make_processor() wrote."""
    return make_processor(CASES[name][0], FOLDER / name)


def train_adapter(name, kind, config, settings, entries):
    base = LlavaNextForConditionalGeneration.from_pretrained(FOLDER / name, dtype=torch.float32)
    column = CASES[name][1]
    tune(name, kind, config, settings, base, entries, make_collator(read_processor(name), column), column)


def tune(name, kind, config, settings, base, entries, collate, column):
    """By peft; files as adapters.py writes them."""
    folder = ADAPTERS / f"{name}-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(5)
    model = get_peft_model(base, config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                parameter.normal_(0, 0.05)
    if "lora" in kind:
        save(model, folder / "initial")
    steps = train(model, entries, collate, settings)
    save(model, folder / "final")
    golden = {"model": name, "torch_dtype": "float32", "autocast": "no", "settings": settings, "column": column,
              "model_max_length": MAX_LENGTH, "steps": steps,
              "made_with": {"peft": peft.__version__, "transformers": transformers.__version__, "torch": torch.__version__}}
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(folder.name, [round(step["loss"], 4) for step in steps])


def train_adapters(entries):
    # On q_proj and v_proj, those of the tower among them.
    train_adapter("llava_siglip", "lora_qv", lora(["q_proj", "v_proj"]), LORA_SETTINGS, entries)
    # peft finds the places of images by the embedding of the placeholder.
    train_adapter("llava_siglip", "prompt", prompt("TEXT"), PROMPT_SETTINGS, entries)


def make_squares_processor(name, folder):
    """smolvlm's files as published ones are, idefics3's as transformers 5 writes them."""
    (_, cls, image_cls), model_config, added, _ = SQUARES_CASES[name]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER / "tokenizer")
    while len(tokenizer) < model_config.image_token_id:
        tokenizer.add_tokens([f"<unused{len(tokenizer)}>"], special_tokens=True)
    tokenizer.add_tokens([IMAGE_TOKEN, *added], special_tokens=True)
    assert tokenizer.convert_tokens_to_ids(IMAGE_TOKEN) == model_config.image_token_id and len(tokenizer) <= 400
    images = image_cls(size={"longest_edge": 30}, max_image_size={"longest_edge": 12})
    options = {"video_processor": SmolVLMVideoProcessor()} if name == "smolvlm" else {}
    processor = cls(image_processor=images, tokenizer=tokenizer, image_seq_len=4, chat_template=DEFAULT_CHAT_TEMPLATE, **options)
    tokenizer.save_pretrained(folder)
    if name == "smolvlm":
        images.save_pretrained(folder)
        (folder / "processor_config.json").write_text('{"image_seq_len": 4}\n')
    else:
        processor.save_pretrained(folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    return processor


def train_squares(name, entries):
    (cls, *_), model_config, _, column = SQUARES_CASES[name]
    folder = FOLDER / name
    processor = make_squares_processor(name, folder)
    collate = make_collator(processor, column)
    with tempfile.TemporaryDirectory() as temporary:
        save_drawn(Path(temporary), cls, model_config)
        shutil.copy(Path(temporary) / "config.json", folder)
        load = lambda: cls.from_pretrained(temporary, dtype=torch.float32)
        steps = train(load(), entries, collate, dict(SETTINGS))
        golden = {"model": name, "torch_dtype": "float32", "autocast": "no", "settings": SETTINGS, "config": {}, "column": column,
                  "model_max_length": MAX_LENGTH, "steps": steps,
                  "ids": [runs(collate([entry])["input_ids"][0].tolist()) for entry in entries[:4]],
                  "made_with": {"transformers": transformers.__version__, "torch": torch.__version__}}
        (FOLDER / f"{name}-float32.json").write_text(json.dumps(golden) + "\n")
        print(name, [round(step["loss"], 4) for step in steps], [round(step["grad_norm"], 3) for step in steps])
        if name == "smolvlm":
            tune(name, "lora_qv", lora(["q_proj", "v_proj"]), LORA_SETTINGS, load(), entries, collate, column)


def main():
    if sys.argv[1:] == ["adapters"]:
        return train_adapters(list(rows()))
    if sys.argv[1:] == ["squares"]:
        entries = pyarrow.parquet.read_table(FOLDER / "vision.parquet").to_pylist()
        for name in SQUARES_CASES:
            train_squares(name, entries)
        return None
    entries = list(rows())
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(entries), FOLDER / "vision.parquet", row_group_size=10)
    for name, (model_config, column) in CASES.items():
        torch.manual_seed(1)
        folder = FOLDER / name
        model = LlavaNextForConditionalGeneration(model_config)
        randomise(model)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        processor = make_processor(model_config, folder)
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        model = LlavaNextForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        settings = dict(SETTINGS)
        steps = train(model, entries, make_collator(processor, column), settings)
        golden = {"model": name, "torch_dtype": "float32", "autocast": "no", "settings": settings, "config": {}, "column": column,
                  "model_max_length": MAX_LENGTH, "steps": steps,
                  "final_norms": {key: value.detach().double().norm().item() for key, value in model.named_parameters()},
                  "made_with": {"transformers": transformers.__version__, "torch": torch.__version__}}
        (FOLDER / f"{name}-float32.json").write_text(json.dumps(golden, indent=1) + "\n")
        print(name, [round(step["loss"], 4) for step in steps], [round(step["grad_norm"], 3) for step in steps])


if __name__ == "__main__":
    main()
