#!/usr/bin/env python3
"""Golden file of tests/data/vision_dataset_test.cpp: pictures as Pillow decodes them, chats and placeholders as a LlavaNextProcessor
has them, labels as fms-hf-tuning's VisionDataCollator masks them.

usage: python3 tests/reference/vision_data.py FOLDER      FOLDER: tokenizer, processor and chat template of granite-vision
                                                          (fms-hf-tuning's tests/artifacts/vision_models/tiny_granite_vision_model)

Writes tests/reference/data/vision_dataset.json. Ids are pairs [id, how often it stands there]. Made with transformers 5.23.0 and
Pillow 13.0.
"""
import base64
import hashlib
import io
import itertools
import json
import sys
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, PngImagePlugin
from transformers import AutoTokenizer, LlavaNextProcessor
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

OUTPUT = Path(__file__).resolve().parent / "data" / "vision_dataset.json"

LLAVA_MISTRAL = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] }}{% endfor %}"
    "{{' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    r"{{ ' ' + message['content'][0]['text'] + '<\s> '}}{% endif %}{% endfor %}")


def picture(height, width, seed):
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([128 + 90 * np.sin(x / (4 + c) + y / (9 - c)) for c in range(3)], -1)
    return np.clip(waves + generator.integers(-15, 16, waves.shape), 0, 255).astype(np.uint8)


def encoded(image, **options):
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def turned(rgb, orientation, endian=">", **options):
    exif = Image.Exif()
    exif.endian = endian
    exif[ExifTags.Base.ImageWidth] = rgb.width
    exif[ExifTags.Base.Orientation] = orientation
    return encoded(rgb, exif=exif, **options)


def xmp(orientation, element=False):
    inside = (f"><tiff:Orientation>{orientation}</tiff:Orientation></rdf:Description>" if element
              else f' tiff:Orientation="{orientation}"/>')
    return ('<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
            f'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/"{inside}</rdf:RDF></x:xmpmeta>').encode()


def turned_in_png_text(rgb, orientation):
    text = PngImagePlugin.PngInfo()
    text.add_itxt("XML:com.adobe.xmp", xmp(orientation).decode())
    return encoded(rgb, format="PNG", pnginfo=text)


def damaged(jpeg):
    """A few bytes of the scan changed: libjpeg warns and goes on."""
    at = jpeg.rindex(b"\xff\xda") + 200
    return jpeg[:at] + b"\xff\xd3" + jpeg[at + 2:]


def pictures():
    rgb = Image.fromarray(picture(23, 37, 1))
    alpha = Image.fromarray(np.dstack([picture(9, 11, 2), np.arange(99, dtype=np.uint8).reshape(9, 11) * 2]))
    return {
        "jpeg": encoded(rgb, format="JPEG"),
        "jpeg 4:4:4 progressive": encoded(rgb, format="JPEG", subsampling=0, progressive=True, quality=95),
        "jpeg gray": encoded(rgb.convert("L"), format="JPEG"),
        "png": encoded(rgb, format="PNG"),
        "png with alpha": encoded(alpha, format="PNG"),
        "png palette": encoded(rgb.convert("P", palette=Image.Palette.ADAPTIVE, colors=16), format="PNG"),
        "png gray": encoded(rgb.convert("L"), format="PNG"),
        "png bits": encoded(rgb.convert("1"), format="PNG"),
        "png gray with alpha": encoded(rgb.convert("LA"), format="PNG"),
        **{f"jpeg of orientation {i}": turned(rgb, i, format="JPEG") for i in range(1, 10)},
        "jpeg of orientation 8, little-endian": turned(rgb, 8, "<", format="JPEG"),
        "png of orientation 6": turned(rgb, 6, format="PNG"),
        "jpeg of orientation 6 in XMP": encoded(rgb, format="JPEG", xmp=xmp(6)),
        "jpeg of orientation 5 in an element of XMP": encoded(rgb, format="JPEG", xmp=xmp(5, element=True)),
        "jpeg of orientation 1 in Exif, 6 in XMP": turned(rgb, 1, format="JPEG", xmp=xmp(6)),
        "png of orientation 3 in XMP": turned_in_png_text(rgb, 3),
        "jpeg of four inks": encoded(Image.merge("CMYK", [*rgb.split(), rgb.convert("L")]), format="JPEG"),
        "jpeg with stray bytes": (jpeg := encoded(rgb, format="JPEG"))[:-2] + b"\0\1\2" + jpeg[-2:],
        "jpeg with a damaged scan": damaged(jpeg),
        "jpeg with bytes after its end": jpeg + b"\0more",
    }


def golden_picture(name, content):
    # As the package datasets does where it decodes its pictures.
    image = Image.open(io.BytesIO(content))
    image.load()
    image = ImageOps.exif_transpose(image).convert("RGB")
    return {"name": name, "base64": base64.b64encode(content).decode(), "width": image.width, "height": image.height,
            "sha256": hashlib.sha256(image.tobytes()).hexdigest()}


def user(text, images=1, image_first=False):
    parts = [{"type": "image"}] * images
    words = [{"type": "text", "text": text}]
    return {"role": "user", "content": parts + words if image_first else words + parts}


def said(role, text):
    return {"role": role, "content": [{"type": "text", "text": text}]}


CHATS = [
    ([user("What is shown?"), said("assistant", "A disc, and on it another one.")], [(384, 384)]),
    ([user("Größe? \n\n 你好", image_first=True), said("assistant", "  spaces  ")], [(384, 768)]),
    ([said("system", "Be brief."), user("Two of them", 2), said("assistant", "Yes."), user("And now?", 0),
      said("assistant", "No.")], [(100, 1000), (901, 57)]),
    ([user("No picture", 0), said("assistant", "None.")], []),
]


def runs(ids):
    return [[int(key), len(list(group))] for key, group in itertools.groupby(ids)]


def main():
    folder = Path(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = json.loads((folder / "chat_template.json").read_text())["chat_template"]
    settings = json.loads((folder / "processor_config.json").read_text())
    processor = LlavaNextProcessor(
        image_processor=LlavaNextImageProcessorPil.from_pretrained(folder), tokenizer=tokenizer, patch_size=settings["patch_size"],
        vision_feature_select_strategy=settings["vision_feature_select_strategy"], chat_template=template,
        num_additional_image_tokens=settings["num_additional_image_tokens"])
    chats = []
    for messages, sizes in CHATS:
        images = [Image.fromarray(picture(h, w, h + w)) for h, w in sizes]
        text = processor.apply_chat_template(messages, tokenize=False)
        options = {"images": [images]} if images else {}
        batch = processor(text=[text], return_tensors="pt", padding=True, **options)
        ids = batch["input_ids"][0]
        labels = ids.clone()
        if tokenizer.pad_token_id is not None:
            labels[labels == tokenizer.pad_token_id] = -100
        labels[labels == tokenizer.convert_tokens_to_ids(processor.image_token)] = -100
        # Quality 95 keeps the file small and its size is all that counts here.
        files = [base64.b64encode(encoded(Image.new("RGB", (w, h), "white"), format="PNG")).decode() for h, w in sizes]
        entry = {"messages": messages, "images": files, "sizes": sizes, "text": text, "ids": runs(ids.tolist()),
                 "labels": runs(labels.tolist())}
        if all(message["role"] != "system" for message in messages):
            entry["llava_mistral"] = processor.apply_chat_template(messages, chat_template=LLAVA_MISTRAL, tokenize=False)
        chats.append(entry)
        print(len(ids), int((labels != -100).sum()), sizes)
    golden = {"pictures": [golden_picture(name, content) for name, content in pictures().items()], "chats": chats}
    OUTPUT.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
