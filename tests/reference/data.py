"""Golden files of the data pipeline, made with the real Hugging Face Trainer, accelerate and tokenizers.

    python tests/reference/data.py [order|steps|entries|responses|generator]...

Writes tests/reference/data/*.json. Made with transformers 5.23, accelerate 1.15, torch 2.15, tokenizers 0.23.
"""

import json
import os
import pathlib
import socket
import sys
import tempfile

import torch
import xxhash
from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)
from torch import multiprocessing, nn
from torch.utils.data import Dataset
from transformers import (DataCollatorForLanguageModeling, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast,
                          Trainer, TrainerCallback, TrainingArguments)

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "data"
SEED_TEXT = HERE.parent.parent / "datasets" / "news_seed.txt"


def write(name, value):
    OUT.mkdir(exist_ok=True)
    (OUT / name).write_text(json.dumps(value, indent=None, separators=(",", ":")) + "\n")
    print(f"{name}: {(OUT / name).stat().st_size} bytes")


class Numbers(Dataset):
    """Entry i is the number i."""

    def __init__(self, entries):
        self.entries = entries

    def __len__(self):
        return self.entries

    def __getitem__(self, index):
        return {"number": index}


class Recorder(nn.Module):
    """Learns nothing; notes which entries each forward pass was given."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seen = []

    def forward(self, number):
        self.seen.append(number.tolist())
        return {"loss": self.weight * number.sum()}


def arguments(folder, **settings):
    return TrainingArguments(output_dir=folder, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
                             logging_strategy="no", dataloader_pin_memory=False, remove_unused_columns=False,
                             **settings)


# --- order: what each epoch reads, through Trainer's own data loader -----------------------------------


def order():
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for entries, seeds, epochs in [(1, [42], 2), (2, [42], 3), (3, [0, 42], 3), (17, [7, 42, 2**32 - 2], 3),
                                       (64, [42], 4), (4096, [42], 2), (100003, [42], 1)]:
            for seed in seeds:
                trainer = Trainer(model=Recorder(), train_dataset=Numbers(entries),
                                  args=arguments(folder, seed=seed, per_device_train_batch_size=5))
                loader = trainer.get_train_dataloader()
                for epoch in range(epochs):
                    loader.set_epoch(epoch)
                    numbers = [n for batch in loader for n in batch["number"].tolist()]
                    case = {"entries": entries, "seed": seed, "epoch": epoch}
                    if entries <= 64:
                        case["order"] = numbers
                    else:  # XXH3-128 of the numbers as little-endian 64-bit integers
                        content = torch.tensor(numbers, dtype=torch.int64).numpy().tobytes()
                        case["digest"] = xxhash.xxh3_128_hexdigest(content)
                    cases.append(case)
    write("epoch_order.json", cases)


# --- steps: what a whole Trainer.train() reads, on one rank and on several -----------------------------

STEP_CASES = [
    # entries, batch, accumulation, max_steps, epochs
    (12, 2, 2, -1, 1.0), (13, 2, 2, -1, 1.0), (13, 4, 3, -1, 2.0), (7, 4, 4, -1, 1.0), (10, 3, 1, -1, 1.5),
    (21, 2, 4, -1, 0.5), (5, 2, 2, 7, 1.0), (16, 4, 2, 3, 1.0), (3, 8, 2, 4, 1.0), (11, 1, 4, 5, 1.0),
    (24, 4, 1, -1, 1.0), (25, 4, 2, -1, 2.0), (1, 2, 3, 2, 1.0), (26, 4, 4, 9, 1.0),
]


class EpochNotes(TrainerCallback):
    def __init__(self):
        self.epochs = []

    def on_step_end(self, args, state, control, **kwargs):
        self.epochs.append(state.epoch)


def train_and_note(case, folder, ranks):
    entries, batch, accumulation, max_steps, epochs = case
    model, notes = Recorder(), EpochNotes()
    args = arguments(folder, per_device_train_batch_size=batch, gradient_accumulation_steps=accumulation,
                     max_steps=max_steps, num_train_epochs=epochs)
    trainer = Trainer(model=model, train_dataset=Numbers(entries), args=args, callbacks=[notes])
    boundaries = []  # forward passes that had been made when each step ended

    class Boundaries(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            boundaries.append(len(model.seen))

    trainer.add_callback(Boundaries())
    trainer.train()
    steps = [model.seen[begin:end] for begin, end in zip([0] + boundaries, boundaries)]
    return {"entries": entries, "batch": batch, "accumulation": accumulation, "max_steps": max_steps,
            "num_train_epochs": epochs, "ranks": ranks, "total_steps": trainer.state.max_steps,
            "epochs": trainer.state.num_train_epochs, "epoch_fractions": notes.epochs, "steps": steps}


def rank_main(rank, ranks, port, folder):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    torch.set_num_threads(1)
    notes = [train_and_note(case, folder, ranks) | {"rank": rank} for case in STEP_CASES]
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(notes))


def steps():
    cases = []
    for ranks in (1, 2, 3):
        with tempfile.TemporaryDirectory() as folder:
            if ranks == 1:
                cases += [train_and_note(case, folder, 1) | {"rank": 0} for case in STEP_CASES]
                continue
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            multiprocessing.spawn(rank_main, (ranks, port, folder), nprocs=ranks)
            for rank in range(ranks):
                cases += json.loads(pathlib.Path(folder, f"rank{rank}.json").read_text())
    write("step_plan.json", cases)


# --- entries: text to ids and labels, batches from transformers' collator ------------------------------

RESPONSE_TEMPLATE = "\n### Response:"
TEXTS = [
    "### Input:\n one two three \n\n### Response: four five six seven eight nine ten",
    "### Input:\nno template in here, only words and more words",
    "short",
    "",
    "twice \n\n### Response: first \n\n### Response: second answer, the last one counts",
    "ends with it \n\n### Response:",
    "### Input: ünïcödé 東京 🙂 \n\n### Response: naïve café — ½",
    "a special <pad> and <|endoftext|> inside \n\n### Response: an answer with <pad> and </s> in it",
    "### Input:\n" + " ".join(f"word{i}" for i in range(60)) + " \n\n### Response: " + "long " * 60,
]
BATCHES = [[0, 1, 2], [3], [4, 8], [5, 6, 7]]


def labels_of(ids, response_ids):
    """-100 up to and including the last occurrence of the template; everything where there is none."""
    for begin in range(len(ids) - len(response_ids), -1, -1):
        if ids[begin:begin + len(response_ids)] == response_ids:
            end = begin + len(response_ids)
            return [-100] * end + ids[end:]
    return [-100] * len(ids)


def contains(ids, part):
    return any(ids[i:i + len(part)] == part for i in range(len(ids)))


def tiny_trainer(vocabulary_size, folder):
    config = LlamaConfig(vocab_size=vocabulary_size, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=1, num_key_value_heads=1)
    return Trainer(model=LlamaForCausalLM(config), args=arguments(folder))


def entries_of(name, tokenizer_file, bos, eos, pad):
    """All results for one tokenizer.json; its special tokens are given, the missing ones are added."""
    names = {"eos_token": eos, "pad_token": pad, "unk_token": None} | ({"bos_token": bos} if bos else {})
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file), **names)
    plain = Tokenizer.from_file(str(tokenizer_file))  # transformers must not change what the file says
    assert all(tokenizer(text)["input_ids"] == plain.encode(text).ids for text in TEXTS if pad not in text)
    response_ids = tokenizer.encode(RESPONSE_TEMPLATE, add_special_tokens=False)[2:]
    collate = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = tiny_trainer(len(tokenizer), folder)
        for maximum in (8, 40, 512):
            rows = [tokenizer(text + eos, truncation=True, max_length=maximum)["input_ids"] for text in TEXTS]
            tokens = [len(tokenizer(text)["input_ids"]) for text in TEXTS]
            batches = []
            for numbers in BATCHES:
                batch = collate([{"input_ids": rows[n]} for n in numbers])
                for row, n in enumerate(numbers):
                    masked = torch.tensor(labels_of(rows[n], response_ids))
                    visible = batch["labels"][row, :len(masked)]
                    visible[masked == -100] = -100
                items = trainer._get_num_items_in_batch([batch], torch.device("cpu"))
                batches.append({"entries": numbers, "input_ids": batch["input_ids"].tolist(),
                                "labels": batch["labels"].tolist(), "num_items": int(items)})
            cases.append({"model_max_length": maximum, "input_ids": rows, "text_tokens": tokens,
                          "without_response": sum(not contains(row, response_ids) for row in rows),
                          "batches": batches})
    return {"name": name, "bos": bos, "eos": eos, "pad": pad, "pad_id": tokenizer.pad_token_id,
            "response_ids": response_ids, "cases": cases}


def train_tokenizers():
    """Small tokenizers of the two kinds that the models use, and one that ends every text with EOS."""
    lines = SEED_TEXT.read_text(encoding="utf-8").splitlines()
    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    byte_level.train_from_iterator(lines, trainer)

    sentence_piece = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    sentence_piece.pre_tokenizer = pre_tokenizers.Metaspace()  # merges stay within words, as in Llama's vocabulary
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    sentence_piece.train_from_iterator(lines, trainer)
    content = json.loads(sentence_piece.to_str())
    content["added_tokens"] = content["added_tokens"][:3]  # the bytes are plain vocabulary
    content["pre_tokenizer"] = None
    sentence_piece = Tokenizer.from_str(json.dumps(content))
    sentence_piece.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    sentence_piece.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                                decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    sentence_piece.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])

    with_suffix = Tokenizer.from_str(byte_level.to_str())
    with_suffix.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", pair="$A $B <|endoftext|>", special_tokens=[("<|endoftext|>", 0)])
    return {"byte_level": (byte_level, "", "<|endoftext|>"), "sentence_piece": (sentence_piece, "<s>", "</s>"),
            "with_suffix": (with_suffix, "", "<|endoftext|>")}


def entries():
    results = []
    for name, (tokenizer, bos, eos) in train_tokenizers().items():
        file = OUT / "tokenizers" / name / "tokenizer.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
        file.write_text(content, encoding="utf-8")
        results.append(entries_of(name, file, bos, eos, "<pad>"))
    write("entries.json", {"texts": TEXTS, "response_template": RESPONSE_TEMPLATE, "tokenizers": results})


# --- responses: where the template's ids do not occur, its text tells, by the tokens' own offsets ---------

RESPONSES = [
    ("\n### Response:", "### Input: one two three ### Response: four five six"),
    ("\n### Response:", "twice ### Response: first ### Response: second answer"),
    ("\n### Response:", "### Input: naïve 東京 🙂 ### Response:half ½ and more"),
    ("\n### Response:", "ends with it ### Response:"),
    ("\n### Response:", "no template in here"),
    ("\nthe end:", "where is the end: near, and the end: far away"),
    ("\nof:", "made of: stone"),
    ("Answer:", "Question: how many? Answer: seven"),
    ("A", "Q of one letter? A seven"),
    ("\n\n", "a question\n\nan answer"),
    ("\n\n", "white space that is not there"),
    (" -> ", "left -> right"),
]


def responses():
    cases = []
    for file in sorted((OUT / "tokenizers").glob("*/tokenizer.json")):
        tokenizer = Tokenizer.from_file(str(file))
        bos, eos = ("<s>", "</s>") if file.parent.name == "sentence_piece" else ("", "<|endoftext|>")
        for template, text in RESPONSES:
            encoded = tokenizer.encode(text + eos)
            sought = tokenizer.encode(template, add_special_tokens=False).ids[2:]
            found = labels_of(encoded.ids, sought).count(-100) if sought else len(encoded.ids)
            by_ids = found < len(encoded.ids)
            loss_begin, part = found, template if template in text else template.lstrip()
            if not by_ids and part and part in text:
                end = text.rindex(part) + len(part)
                inside = [i for i, (begin, _) in enumerate(encoded.offsets)
                          if begin < end and not (encoded.special_tokens_mask[i] and i > 0)]
                loss_begin = inside[-1] + 1
            cases.append({"name": file.parent.name, "bos": bos, "eos": eos, "pad": "<pad>", "template": template,
                          "text": text, "input_ids": encoded.ids, "by_ids": by_ids, "loss_begin": loss_begin})
    write("responses.json", cases)


# --- generator: the text generators, written again from their description -------------------------------


class Stream:
    """Units of a seed text, round robin."""

    def __init__(self, units):
        self.units, self.position = units, 0

    def take(self, count):
        taken = [self.units[(self.position + i) % len(self.units)] for i in range(count)]
        self.position = (self.position + count) % len(self.units)
        return taken


def word_lines(seed_text, prompt, delimiter, tokens_input, tokens_output, words_per_token, entries):
    stream = Stream(seed_text.split())
    for _ in range(entries):
        before = stream.take(int(tokens_input * words_per_token + 0.5))
        after = stream.take(int(tokens_output * words_per_token + 0.5))
        yield json.dumps({"output": " ".join([prompt, *before, delimiter, *after])}) + "\n"


def character_lines(seed_text, prompt, delimiter, characters, entries):
    stream = Stream(" ".join(seed_text.split()) + " ")
    for _ in range(entries):
        before, after = "".join(stream.take(characters)), "".join(stream.take(characters))
        yield json.dumps({"output": prompt + before + delimiter + after}) + "\n"


def generator():
    odd_seed = ('Plain words, "quoted" and back\\slashed;\ttabs\n\nnew lines\u00a0and no-break\u2003spaces '
                "caf\u00e9 \u6771\u4eac \U0001f642 \x7f\x01 end\u3000")
    cases = []
    for settings in [dict(prompt="### Input:\n", delimiter="\n\n### Response:", tokens_input=10, tokens_output=30,
                          words_per_token=0.75, entries=4),
                     dict(prompt='"p"\u00e9', delimiter="d\t", tokens_input=0, tokens_output=7, words_per_token=1.5,
                          entries=3),
                     dict(prompt="", delimiter="", tokens_input=3, tokens_output=0, words_per_token=0.5, entries=2)]:
        cases.append({"seed": odd_seed, "unit": "words"} | settings |
                     {"lines": "".join(word_lines(odd_seed, **settings))})
    settings = dict(prompt="P:\n", delimiter="\n\n### Response: ", characters=25, entries=7)
    cases.append({"seed": odd_seed, "unit": "characters"} | settings |
                 {"lines": "".join(character_lines(odd_seed, **settings))})

    seed_text = SEED_TEXT.read_text(encoding="utf-8")
    named = {}
    prompt = ("Below is the beginning of a news story. Write how it goes on in the same style, as one plain text."
              "\n\n### Input:\n")
    delimiter = "\n\n### Response: "
    assert len(prompt + delimiter) == 127
    for characters in (512, 1024, 2048):
        for entries in (256, 1024, 4096):
            named[f"news-chars-{characters}-entries-{entries}"] = character_lines(
                seed_text, prompt, delimiter, characters, entries)
    for name, tokens, entries in [("news-tokens-16384plus-entries-4096", 18240, 4096),
                                  ("news-tokens-128kplus-entries-320", 8 * 18240, 320),
                                  ("news-tokens-128kplus-entries-4096", 8 * 18240, 4096)]:
        named[name] = word_lines(seed_text, "### Input:\n", "\n\n### Response:", 10, tokens, 0.75, entries)

    def measure(lines):
        """Digest and size of the first 16 entries: enough to hold every parameter but the entry count."""
        content = "".join(line for line, _ in zip(lines, range(16))).encode()
        return {"first_16_digest": xxhash.xxh3_128_hexdigest(content), "first_16_bytes": len(content)}

    write("text_generator.json", {"cases": cases, "named": {name: measure(lines) for name, lines in named.items()}})


def main():
    parts = {"order": order, "steps": steps, "entries": entries, "responses": responses, "generator": generator}
    for part in sys.argv[1:] or parts:
        parts[part]()


if __name__ == "__main__":
    main()
