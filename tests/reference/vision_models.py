#!/usr/bin/env python3
"""Golden files of models that read images: tiny random LLaVA-NeXT checkpoints, made and run by Hugging Face transformers.

usage: python3 tests/reference/vision_models.py [--output FOLDER] [CASE...]

Writes one folder per case with config.json, the weights as save_pretrained writes them, and golden.safetensors with
  input_ids, labels, attention_mask   [B, S] int64; every image has its placeholders, labels are masked on them, on padding
                                      and at the start
  images.I, tiles.I                   [H, W, 3] uint8 and [tiles, 3, side, side] float32: an image and what
                                      LlavaNextImageProcessorPil makes of it
  image_sizes                         [images, 2] int64, height and width
  loss, logits, grad.<parameter name>, autocast.*, bf16.*   as in models.py; parameters under their names as modules
Parameters without a gradient have no entry: nothing of the loss comes from them.

The cases of DRAWN have what drawn.py writes instead, and side, tiles: pixels [tiles, 3, side, side] are twice the drawn values
"pixels".

The files here: transformers 5.23.0 (DRAWN: 5.24.0), torch 2.15.0, Pillow 13.0.
"""
import json
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (Idefics3Config, Idefics3ForConditionalGeneration, LlavaNextConfig, LlavaNextForConditionalGeneration,
                          SmolVLMConfig, SmolVLMForConditionalGeneration)
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

import drawn
import models
from models import IGNORED, make_cases, write_golden

TEXT = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, initializer_range=0.25,
            bos_token_id=None, eos_token_id=None, pad_token_id=None)
GRANITE = dict(TEXT, model_type="granite", embedding_multiplier=12.0, attention_multiplier=0.0625, residual_multiplier=0.22,
               logits_scaling=6.0, tie_word_embeddings=True, pad_token_id=0)
CLIP = dict(model_type="clip_vision_model", hidden_size=16, intermediate_size=24, num_hidden_layers=3,
            num_attention_heads=2, image_size=12, patch_size=4, projection_dim=8)
SIGLIP = dict(CLIP, model_type="siglip_vision_model", num_hidden_layers=4)
SIGLIP.pop("projection_dim")

# name -> (configuration, images of each row as (height, width), changes of the saved file)
CASES = {
    # llava-v1.6-mistral: one feature layer, the last layer of the tower unused.
    "llava_next_clip": (LlavaNextConfig(
        vision_config=CLIP, text_config=dict(TEXT, model_type="mistral", sliding_window=None), image_token_index=40,
        vision_feature_layer=-2, vision_feature_select_strategy="default",
        image_grid_pinpoints=[[12, 24], [24, 12], [24, 24], [36, 12], [12, 36]]), [[(12, 12)], [(20, 31)], []], "old"),
    # granite-vision-3.2: features of several layers, multipliers, a tied output projection.
    "llava_next_siglip": (LlavaNextConfig(
        vision_config=SIGLIP, text_config=GRANITE, image_token_index=47, vision_feature_layer=[-4, -3, 1, -1],
        vision_feature_select_strategy="full", tie_word_embeddings=True,
        image_grid_pinpoints=[[12, 12], [12, 24], [24, 12], [12, 36], [24, 24]]), [[(40, 17)], [(12, 24), (7, 9)], []], "modules"),
    # Sides that no patch divides, heads of odd size, no bias in the projector, another activation.
    "llava_next_odd_sizes": (LlavaNextConfig(
        vision_config=dict(CLIP, hidden_size=15, num_attention_heads=3, intermediate_size=13, image_size=17, patch_size=5,
                           hidden_act="gelu"),
        text_config=dict(TEXT, model_type="llama", vocab_size=41, hidden_size=18, num_attention_heads=3,
                         num_key_value_heads=1, attention_bias=True), image_token_index=3,
        vision_feature_layer=[2, -3], projector_hidden_act="gelu_pytorch_tanh", multimodal_projector_bias=False,
        vision_feature_select_strategy="default", image_grid_pinpoints=[[17, 34], [51, 17], [34, 34]]),
        [[(101, 57)], [(1, 64)], [(19, 18)]], ""),
}

LLAMA = {**{key: value for key, value in TEXT.items() if value is not None}, "model_type": "llama", "initializer_range": 0.125}
TOWER = dict(hidden_size=15, intermediate_size=13, num_hidden_layers=3, num_attention_heads=3, image_size=31, patch_size=5)

# name -> (class, configuration, side of the tiles, tiles of each row)
DRAWN = {
    # Heads of odd size, sides that no patch divides, a tied output projection whose embedding has a padding row.
    "idefics3_odd_sizes": (Idefics3ForConditionalGeneration, Idefics3Config(
        vision_config=TOWER, text_config=dict(LLAMA, vocab_size=41, hidden_size=18, num_attention_heads=3, num_key_value_heads=1,
                                              pad_token_id=0, tie_word_embeddings=True),
        image_token_id=3, scale_factor=3, tie_word_embeddings=True), 31, (2, 1, 0)),
    # Tiles of fewer patches than the tower has learned positions for, another activation, biases of attention.
    "smolvlm_other_side": (SmolVLMForConditionalGeneration, SmolVLMConfig(
        vision_config=dict(TOWER, hidden_size=14, num_attention_heads=2, image_size=26, patch_size=4, hidden_act="gelu"),
        text_config=dict(LLAMA, hidden_size=20, num_attention_heads=4, head_dim=6, attention_bias=True), image_token_id=40,
        scale_factor=2), 18, (1, 3, 1)),
}


def randomise(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = "norm" in name and name.endswith("weight")
            if parameter.dim() == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.2 + (1.0 if norm else 0.0))
            elif "vision_tower" in name or "projector" in name:
                parameter.normal_(std=0.3)


def picture(size, generator):
    """Smooth gradients with noise: neither a filter's edge nor its rounding goes unseen."""
    height, width = size
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 100 * np.sin(x / (3 + c) + y / (5 - c)) for c in range(3)]
    noise = torch.randint(-20, 21, (height, width, 3), generator=generator).numpy()
    return np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


def image_processor(config):
    side = config.vision_config.image_size
    clip = config.vision_config.model_type == "clip_vision_model"
    size = {"shortest_edge": side} if clip else {"height": side, "width": side}
    mean, std = (([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]) if clip
                 else ([0.5] * 3, [0.5] * 3))
    return LlavaNextImageProcessorPil(size=size, crop_size={"height": side, "width": side}, image_mean=mean, image_std=std,
                                      image_grid_pinpoints=config.image_grid_pinpoints)


def feature_count(model, tiles, size):
    """Through the model: how many features it makes of the image."""
    with torch.no_grad():
        features = model.model.get_image_features(tiles[None], torch.tensor([size])).pooler_output
    return len(features[0])


def make_batch(model, config, rows, tiles, seed):
    generator = torch.Generator().manual_seed(seed)
    token, vocab = config.image_token_index, config.text_config.vocab_size
    texts, image = [], 0
    for row, sizes in enumerate(rows):
        def words(count):
            ids = torch.randint(1, vocab - 1, (count,), generator=generator)
            return torch.where(ids >= token, ids + 1, ids)
        ids = [words(3 + row)]
        for size in sizes:
            ids += [torch.full((feature_count(model, tiles[image], size),), token), words(4)]
            image += 1
        texts.append(torch.cat([*ids, words(12)]))
    length = max(map(len, texts))
    ids = torch.zeros(len(texts), length, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, :len(text)], mask[row, :len(text)] = text, 1
    labels = ids.clone()
    labels[(mask == 0) | (ids == token)] = IGNORED
    labels[:, :2] = IGNORED
    return ids, mask, labels


def run(model, batch, pixels, sizes):
    ids, mask, labels = batch
    out = model(input_ids=ids, attention_mask=mask, labels=labels, pixel_values=pixels, image_sizes=sizes, use_cache=False)
    return out.loss, out.logits


def rename(folder, form):
    """The spellings that checkpoints have had: "old" is that of the published files, "modules" that of modules."""
    if not form:
        return
    tensors = {}
    for name, value in load_file(folder / "model.safetensors").items():
        name = name.replace("vision_tower.", "vision_tower.vision_model.")
        if form == "modules":
            if name.startswith("language_model.model."):
                name = "model.language_model." + name.removeprefix("language_model.model.")
            elif name.startswith("language_model.lm_head."):
                name = name.removeprefix("language_model.")
            else:
                name = "model." + name
        tensors[name] = value
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def half(logits):
    return logits.detach().to(torch.bfloat16)


def make_case(folder, case, seed):
    config, rows, form = case
    torch.manual_seed(seed)
    model = LlavaNextForConditionalGeneration(config).eval()
    randomise(model)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    rename(folder, form)

    generator = torch.Generator().manual_seed(seed)
    golden, tiles, sizes = {}, [], [size for row in rows for size in row]
    processor = image_processor(config)
    for index, size in enumerate(sizes):
        image = picture(size, generator)
        made = processor(images=[image], return_tensors="np", input_data_format="channels_last")
        tiles.append(torch.tensor(np.asarray(made["pixel_values"][0]), dtype=torch.float32))
        golden[f"images.{index}"], golden[f"tiles.{index}"] = torch.from_numpy(image), tiles[-1]
    image_sizes = torch.tensor(sizes)

    load = LlavaNextForConditionalGeneration.from_pretrained
    model, loading = load(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(loading.values()), loading
    model.eval()
    most = max(map(len, tiles))
    pixels = torch.stack([torch.nn.functional.pad(t, (0, 0, 0, 0, 0, 0, 0, most - len(t))) for t in tiles])
    batch = make_batch(model, config, rows, tiles, seed)
    golden |= dict(zip(("input_ids", "attention_mask", "labels"), batch), image_sizes=image_sizes)

    loss, logits = run(model, batch, pixels, image_sizes)
    loss.backward()
    golden["loss"], golden["logits"] = loss.detach().reshape(1), logits.detach()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            golden["grad." + name] = parameter.grad
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            loss, logits = run(model, batch, pixels, image_sizes)
        golden["autocast.loss"], golden["autocast.logits"] = loss.float().reshape(1), half(logits)
        small = load(folder, dtype=torch.bfloat16).eval()
        loss, logits = run(small, batch, pixels, image_sizes)
        golden["bf16.loss"], golden["bf16.logits"] = loss.float().reshape(1), half(logits)
    write_golden(folder, golden)
    print(json.dumps({"rows": [int(n) for n in batch[1].sum(1)], "tiles": [len(t) for t in tiles]}))


def make_drawn(folder, case, seed):
    cls, config, side, tiles = case
    ids, mask, labels = models.make_batch(config.text_config.vocab_size, 32, seed)
    features = (side // config.vision_config.patch_size // config.scale_factor) ** 2
    ids[ids == config.image_token_id] += -1
    pixels = torch.zeros(len(tiles), max(tiles), 3, side, side)
    of_tiles = (2 * drawn.drawn_bits("pixels", sum(tiles) * 3 * side * side)).view(-1, 3, side, side).float()
    for row, count in enumerate(tiles):
        first = sum(tiles[:row])
        pixels[row, :count] = of_tiles[first:first + count]
        places = slice(5, 5 + count * features)
        ids[row, places], labels[row, places] = config.image_token_id, IGNORED
    with tempfile.TemporaryDirectory() as temporary:
        drawn.save_drawn(Path(temporary), cls, config)
        shutil.copy(Path(temporary) / "config.json", folder)
        load = lambda dtype: cls.from_pretrained(temporary, dtype=dtype).eval()
        golden, exact = drawn.exact_golden(load(torch.float64), ids, mask, labels, 0.05, pixel_values=pixels)
        for name, dtype in (("autocast", torch.float32), ("bfloat16", torch.bfloat16)):
            golden[name] = drawn.half_golden(load(dtype), exact, ids, mask, labels, name == "autocast", pixel_values=pixels)
    drawn.write_drawn(folder, golden | {"side": side, "tiles": sum(tiles)})


if __name__ == "__main__":
    cases = CASES | DRAWN
    make_cases(cases, {name: zlib.crc32(name.encode()) % 10000 for name in cases},
               lambda folder, case, seed: (make_case if case in CASES.values() else make_drawn)(folder, case, seed), __doc__)
