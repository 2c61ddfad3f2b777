#!/usr/bin/env python3
"""Golden ids of Hugging Face `tokenizers`, and the tokenizers that they are made with.

  tokenizer.py parts                     tests/reference/tokenizers/parts.json: what the test strings consist of
  tokenizer.py train                     tests/reference/tokenizers/<name>.json, small, one per family
  tokenizer.py golden [SHARED]           .ids (CRC-32 of each string's ids) and .sample.json (ids in full) for the
                                          trained ones, and for every tokenizer under the folder SHARED
  tokenizer.py builtin                   datasets/tokenizer/: the byte-level BPE that ships with the program
  tokenizer.py unicode                    unicode.json: normal forms and splits over every code point, as CRC-32
  tokenizer.py sets                       sets.json: what one-character patterns match, of every code point, as CRC-32
  tokenizer.py variants                   variants.json: ids of trained tokenizers with other steps around the model
  tokenizer.py special SHARED            what transformers makes of fms-hf-tuning's special tokens

The 10,000 strings are not stored: `Strings` below and in tests/tokenizer/golden_test.cpp draw the same ones.
Made with tokenizers 0.23.3, transformers 5.23, Python 3.11.
"""
import inspect
import itertools
import json
import pydoc_data.topics
import struct
import sys
import zlib
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).resolve().parent / "tokenizers"
ROOT = HERE.parent.parent.parent
COUNT = 10_000
SAMPLES = 150
SOME = 4000  # strings of variants.json

PARTS = {
    "words": "the of Turbine harbour don't I'LL we've they're it's O'Neil 'tis can't'd HELLO'S naïve café coöperate "
             "Straße ΣΊΣΥΦΟΣ İstanbul DŽungla ﬁne ſharp it'ſ x'Re y'VE z'lL tokenizer_json foo.bar(baz) a+b=c #!/bin/sh "
             "http://example.org/?q=1&r=2 snake_case CamelCase 3.14 1,234,567 50% $9.99 €5 №7 ½ ² Ⅷ ⑨ ٣٤ ௧௨ 〇 𝟘𝟙".split(),
    "emoji": ["👩‍👩‍👧‍👦", "👨🏽‍🚀", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️‍🔥", "👍🏿", "🫠", "🧑🏻‍❤️‍💋‍🧑🏿", "☺︎", "1️⃣", "🪿", "🫨"],
    "scripts": ["Привет мир", "你好，世界", "こんにちは", "カタカナ", "안녕하세요", "한국어", "नमस्ते दुनिया", "สวัสดีชาวโลก", "မင်္ဂလာပါ", "ქართული",
                "Ελληνικά", "አማርኛ", "ខ្មែរ", "ᚠᛇᚻ", "𐍈𐌿", "𒀀𒁀", "𠜎𠜱", "𖼀𖼁", "𞤀𞤣𞤤𞤢𞤥", "ꙮ"],
    "right_to_left": ["שלום עולם", "مرحبا بالعالم", "‏עברית‏", "پارسی", "اُردُو", "ދިވެހި", "ܫܠܡܐ", "‮reversed‬"],
    "spaces": [" ", "\u00a0", "\u1680", "\u180e", "\u2002", "\u2009", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f",
               "\u3000", "\ufeff", "\u0085", "\t", "\u000b", "\u000c"],
    "special": ["<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<|end_of_text|>", "<|begin_of_text|>", "<image>",
                "<fim_prefix>", "<|start_of_role|>", " <s> ", "<s", "s>", "<mask>", "\n<mask>  ", "WORD", "aWORDb",
                "▁", "▁▁x", "<0x41>", "Ġthe", "<|tool", "[INST]"],
    "marks": ["\u0300", "\u0301", "\u0316", "\u0323", "\u0334", "\u0345", "\u064b", "\u0651", "\u093c", "\u094d",
              "\u0e38", "\u1dce", "\u3099", "\u0898", "\u1acf", "\U00010f82", "\U0001e08f"],
}


class Strings:
    """The test strings: byte strings from a splitmix64 stream."""

    def __init__(self, parts):
        self.parts = {key: [text.encode() for text in texts] for key, texts in parts.items()}
        self.state = 42

    def next(self, bound):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) % bound

    def pick(self, key):
        return self.parts[key][self.next(len(self.parts[key]))]

    def code_point(self):
        c = self.next(17) * 0x10000 + self.next(0x10000)
        return chr(0xFFFD if 0xD800 <= c < 0xE000 else c).encode()

    def part(self):
        kind = self.next(18)
        if kind < 3:
            return b" " + self.pick("words")
        if kind == 3:
            return self.pick("words")
        if kind == 4:
            return bytes(0x20 + self.next(95) for _ in range(1 + self.next(8)))
        if kind == 5:
            return b"".join(self.code_point() for _ in range(1 + self.next(4)))
        if kind == 6:
            return self.pick("emoji")
        if kind == 7:
            return b"".join(bytes([self.next(32)]) if self.next(4) else b"\x7f" for _ in range(1 + self.next(3)))
        if kind == 8:
            return bytes(0x80 + self.next(128) for _ in range(1 + self.next(4)))
        if kind == 9:
            return b" " * (1 + self.next(20))
        if kind == 10:
            return b"".join([b"\n", b"\r\n", b"\n", b" ", b"\t"][self.next(5)] for _ in range(1 + self.next(6)))
        if kind == 11:
            return bytes(0x30 + self.next(10) for _ in range(1 + self.next(12)))
        if kind == 12:
            return self.pick("special")
        if kind == 13:
            return self.pick("right_to_left")
        if kind == 14:
            base = bytes([0x61 + self.next(26)])
            return base + b"".join(self.pick("marks") for _ in range(1 + self.next(5)))
        if kind == 15:
            return self.pick("scripts")
        if kind == 16:
            return b"".join(self.pick("spaces") for _ in range(1 + self.next(3)))
        return chr([0x2E80, 0xAC00, 0x370, 0x400, 0x1F300, 0x31350][self.next(6)] + self.next(0x180)).encode()

    def string(self, index):
        text = b"".join(self.part() for _ in range(1 + self.next(12)))
        return text * 60 if index % 1000 == 999 else text


def all_strings():
    strings = Strings(json.loads((HERE / "parts.json").read_text()))
    return [strings.string(i) for i in range(COUNT)]


# --- training -------------------------------------------------------------------------------------
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
HAN = r"[\p{Han}]+|\w+\b|\h|[^\w\s]"


def english():
    """The project's own seed text and the documentation that Python ships."""
    texts = [(ROOT / "datasets" / "news_seed.txt").read_text()]
    texts += [pydoc_data.topics.topics[key] for key in sorted(pydoc_data.topics.topics)]
    for name in ("argparse asyncio collections configparser csv datetime decimal difflib doctest email fractions "
                 "functools heapq inspect ipaddress itertools json logging optparse pathlib pickle random re shutil "
                 "statistics string subprocess tarfile textwrap threading turtle typing unittest urllib.parse uuid "
                 "zipfile").split():
        module = __import__(name, fromlist=["x"])
        texts += [module.__doc__ or ""] + [inspect.getdoc(v) or "" for _, v in sorted(vars(module).items())
                                           if getattr(v, "__module__", None) == name]
    return texts


def corpus():
    parts = PARTS
    return english()[:60] + [" ".join(parts[k]) for k in parts for _ in range(3)]


def byte_level(regex=None, digits=None, use_regex=False, prefix=False):
    steps = []
    if digits is not None:
        steps.append(pre_tokenizers.Digits(individual_digits=digits))
    if regex is not None:
        steps.append(pre_tokenizers.Split(Regex(regex), "isolated", invert=False))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex))
    return steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)


def train(tokenizer, vocabulary, special, alphabet=True):
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else [])
    tokenizer.train_from_iterator(corpus(), trainer)


def bos(token, index):
    return processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1",
                                         special_tokens=[(token, index)])


def family(name):
    """A trained tokenizer of the family `name`."""
    t = Tokenizer(models.BPE())
    if name == "gpt2":
        t.pre_tokenizer = byte_level(use_regex=True)
        train(t, 2500, ["<|endoftext|>"])
        t.post_processor = processors.ByteLevel(trim_offsets=True)
    elif name == "llama3":
        t = Tokenizer(models.BPE(ignore_merges=True))
        t.pre_tokenizer = byte_level(LLAMA3)
        train(t, 3000, [])
        t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                                bos("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])
    elif name == "smollm2":
        t.pre_tokenizer = byte_level(digits=True, use_regex=True)
        train(t, 2500, ["<|endoftext|>", "<fim_prefix>"])
    elif name == "granite":
        t.pre_tokenizer = byte_level(digits=False, use_regex=True, prefix=True)
        train(t, 2000, ["<|end_of_text|>", "<fim_prefix>"])
        t.add_special_tokens([AddedToken("<|start_of_role|>", special=True)])
    elif name == "qwen2":
        t.normalizer = normalizers.NFC()
        t.pre_tokenizer = byte_level(QWEN2)
        train(t, 2000, ["<|endoftext|>"])
    elif name == "bloom":
        t.pre_tokenizer = byte_level(BLOOM)
        train(t, 2000, ["<unk>", "<s>", "</s>", "<pad>"])
    elif name == "o200k":
        t.normalizer = normalizers.NFKD()
        t.pre_tokenizer = byte_level(O200K)
        train(t, 2000, ["<|endoftext|>"])
    elif name == "llama2":
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        t.pre_tokenizer = pre_tokenizers.Metaspace()  # for training only: words
        train(t, 2500, ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], alphabet=False)
        t.pre_tokenizer = None
        t.post_processor = bos("<s>", 1)
    elif name == "mistral":
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False, byte_fallback=False))
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        train(t, 2000, ["<unk>", "<s>", "</s>"], alphabet=False)
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        t.add_tokens([AddedToken("[INST]", lstrip=True, rstrip=True, normalized=False)])
        t.post_processor = bos("<s>", 1)
    elif name == "mixed":  # what the families do not use together
        t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
        t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.NFD(),
                                             normalizers.StripAccents(), normalizers.Strip(),
                                             normalizers.Replace(Regex(r"(\w)\1{3,}"), "~")])
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
            pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex(HAN), "contiguous"),
            pre_tokenizers.Split("e", "merged_with_next"), pre_tokenizers.CharDelimiterSplit("q")])
        t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=1500, special_tokens=["<unk>"],
                                                            show_progress=False, end_of_word_suffix="</w>"))
        t.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=True),
                      AddedToken("WORD", single_word=True, normalized=False),
                      AddedToken("<s>", normalized=True), "<s>x"])
        t.enable_truncation(200, direction="left")  # stays in the file, and has no effect
    elif name == "whitespace":
        t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
        t.normalizer = normalizers.NFKD()
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(),
                                                   pre_tokenizers.Split(Regex(r"\d|[^\S\n]"), "removed")])
        t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=1500, special_tokens=["<unk>", "<s>"],
                                                            show_progress=False, continuing_subword_prefix="##"))
        t.enable_truncation(40)
    return t


FAMILIES = "gpt2 llama3 smollm2 granite qwen2 bloom o200k llama2 mistral mixed whitespace".split()
LEGACY_MERGES = {"gpt2", "smollm2", "llama2", "bloom"}


def save(tokenizer, path, legacy):
    """Compact JSON; `legacy` writes merges as "a b", as files from before 2024 do."""
    data = json.loads(tokenizer.to_str())
    if legacy:
        data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")


# --- golden ids -----------------------------------------------------------------------------------
def golden(tokenizer, name):
    texts = [s.decode("utf-8", "replace") for s in all_strings()]
    tokenizer.no_truncation()  # as transformers does with what a file's truncation says
    ids = [e.ids for e in tokenizer.encode_batch(texts)]
    (HERE / f"{name}.ids").write_bytes(b"".join(
        struct.pack("<I", zlib.crc32(struct.pack(f"<{len(row)}i", *row))) for row in ids))
    (HERE / f"{name}.sample.json").write_text(json.dumps(ids[:SAMPLES], separators=(",", ":")) + "\n")
    print(name, sum(map(len, ids)), "ids")


def builtin():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = byte_level(digits=True, use_regex=True)
    t.train_from_iterator(english(), trainers.BpeTrainer(
        vocab_size=8192, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    folder = ROOT / "datasets" / "tokenizer"
    folder.mkdir(exist_ok=True)
    save(t, folder / "tokenizer.json", legacy=True)
    end = "<|endoftext|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": end, "eos_token": end,
         "model_max_length": 131072}, indent=2) + "\n")
    print("builtin", t.get_vocab_size(), (folder / "tokenizer.json").stat().st_size)


def unicode():
    """CRCs over all code points: of the normalized texts, and of the lengths of the pieces."""
    chars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    result = {"normalizers": {}, "splits": {}}
    for name in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]:
        run, crc = getattr(normalizers, name)().normalize_str, 0
        for c in chars:
            # Marks of two combining classes: their order with c shows c's own class.
            crc = zlib.crc32(run(f"a{c}\u0316\u0334{c}\u0301").encode(), crc)
        result["normalizers"][name] = crc
    for name, pattern in {"gpt2": GPT2, "llama3": LLAMA3, "qwen2": QWEN2, "bloom": BLOOM, "o200k": O200K,
                          "han": HAN}.items():
        split, crc = pre_tokenizers.Split(Regex(pattern), "isolated"), 0
        for start in range(0, len(chars), 64):
            text = "".join(f"{c}a {c}1'{c}s{c}{c} !{c}\n" for c in chars[start : start + 64])
            for piece, _ in split.pre_tokenize_str(text):
                crc = zlib.crc32(struct.pack("<I", len(piece.encode())), crc)
        result["splits"][name] = {"pattern": pattern, "crc": crc}
    (HERE / "unicode.json").write_text(json.dumps(result, indent=1) + "\n")


# Of [[:name:]], [[:^name:]] and \p{name}; many are not what PCRE2 means by the name.
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper xdigit word".split()
SETS = ([f"[[:{name}:]]" for name in POSIX] + [f"[[:^{name}:]]" for name in ("cntrl", "digit", "space", "upper")]
        + [rf"\p{{{name}}}" for name in POSIX]
        + [rf"\p{{{name}}}" for name in (
            "Alphabetic Lowercase Uppercase Emoji Emoji_Presentation Emoji_Modifier Emoji_Modifier_Base Emoji_Component "
            "Extended_Pictographic Ideographic White_Space Any Assigned PosixPunct Hex_Digit Unified_Ideograph "
            "Regional_Indicator Letter Uppercase_Letter Lm Mark Nonspacing_Mark Number Nd Punctuation Symbol Currency_Symbol "
            "Separator Other Cf Co Han Hiragana Katakana Greek Hangul Thai Kannada "
            "Bengali").split()]
        + [r"\p{^Alphabetic}", r"\P{Emoji}", r"\p{ lower_case-letter }", "[^[:alpha:]]", "[[:alpha:][:digit:]]",
           r"[a\p{Emoji}\P{L}]", r"[\p{punct}[:blank:]x-z]", r"\w", r"\d", r"\D", r"\s", r"\h", r"\v", r"\N", "."])


def sets():
    """CRC of the code points, as 32-bit integers, that each pattern matches."""
    chars = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    result = {}
    for pattern in SETS:
        delete, crc, count = normalizers.Replace(Regex(pattern), ""), 0, 0
        for start in range(0, len(chars), 16384):
            chunk = chars[start : start + 16384]
            kept = set(map(ord, delete.normalize_str("".join(map(chr, chunk)))))
            matched = [c for c in chunk if c not in kept]
            crc, count = zlib.crc32(struct.pack(f"<{len(matched)}I", *matched), crc), count + len(matched)
        result[pattern] = {"count": count, "crc": crc}
    (HERE / "sets.json").write_text(json.dumps(result, indent=1) + "\n")


def variants():
    """CRC of all ids of the test strings, and the ids of the first ones, for other steps around trained models."""
    first = pre_tokenizers.Metaspace(prepend_scheme="first")
    first_whole = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)

    def steps(*parts):
        return pre_tokenizers.Sequence(list(parts))

    def forms(*parts):
        return normalizers.Sequence(list(parts))

    cases = {  # name: (trained tokenizer, what is put in its place)
        "first_alone": ("mistral", {"pre_tokenizer": first}),
        "first_behind_white_space": ("mistral", {"pre_tokenizer": steps(pre_tokenizers.WhitespaceSplit(), first)}),
        "first_behind_words": ("mistral", {"pre_tokenizer": steps(pre_tokenizers.Whitespace(), first_whole)}),
        "first_behind_removed": ("mistral", {"pre_tokenizer": steps(pre_tokenizers.Split(" ", "removed"), first)}),
        "first_behind_pattern": ("mistral", {"pre_tokenizer": steps(
            pre_tokenizers.Split(Regex(r"[\p{P}\s]+"), "removed"), first)}),
        "first_behind_punctuation": ("mistral", {"pre_tokenizer": steps(
            pre_tokenizers.Punctuation("merged_with_next"), first)}),
        "first_behind_delimiter": ("mistral", {"pre_tokenizer": steps(pre_tokenizers.CharDelimiterSplit("a"), first)}),
        "first_behind_bytes": ("mistral", {"pre_tokenizer": steps(
            pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), first)}),
        "first_twice": ("mistral", {"pre_tokenizer": steps(first, pre_tokenizers.Digits(), first)}),
        "strip": ("mistral", {"normalizer": normalizers.Strip(), "pre_tokenizer": first}),
        "strip_accents": ("mistral", {"normalizer": forms(normalizers.NFKD(), normalizers.StripAccents()),
                                      "pre_tokenizer": steps(pre_tokenizers.Digits(), first)}),
        "compose": ("mistral", {"normalizer": forms(normalizers.NFKC(), normalizers.Lowercase()),
                                "pre_tokenizer": steps(pre_tokenizers.Split(Regex("f|1|[^a-z ]"), "isolated"), first)}),
        "replace_beginning": ("mistral", {"normalizer": normalizers.Replace(Regex(r"^[\p{L}\s]{2}"), "~a"),
                                          "pre_tokenizer": first}),
        "remove_beginning": ("mistral", {"normalizer": normalizers.Replace(Regex(r"^[\p{L}\s]+"), ""),
                                         "pre_tokenizer": steps(pre_tokenizers.Digits(), first)}),
        "replace_one": ("mistral", {"normalizer": forms(normalizers.Replace(" ", "_"), normalizers.Replace("t", "a b")),
                                    "pre_tokenizer": steps(pre_tokenizers.Split(" ", "removed"), first)}),
        "prepend": ("mistral", {"normalizer": forms(normalizers.Strip(), normalizers.Prepend("x ")),
                                "pre_tokenizer": steps(pre_tokenizers.WhitespaceSplit(), first)}),
        "posix": ("gpt2", {"pre_tokenizer": steps(
            pre_tokenizers.Split(Regex(r"[[:upper:]]?[[:alpha:]]+|[[:digit:]]{1,3}| ?[[:punct:]]+|\p{Emoji}+|[[:space:]]+"),
                                 "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))}),
        "roberta": ("gpt2", {"post_processor": processors.RobertaProcessing(("the", 7), ("<|endoftext|>", 0))}),
        "bert": ("gpt2", {"post_processor": processors.BertProcessing(("</s>", 9), ("<s>", 8))}),
        "bert_in_sequence": ("gpt2", {"post_processor": processors.Sequence(
            [processors.ByteLevel(), processors.BertProcessing(("</s>", 9), ("<s>", 8))])}),
    }
    # Every way in which a step can be asked.
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for name, step in (("space", pre_tokenizers.Split(" ", behavior)), ("vowels", pre_tokenizers.Split(Regex("[aeiou]+"), behavior)),
                           ("others", pre_tokenizers.Split(Regex("[a-y]+"), behavior, invert=True)),
                           ("punctuation", pre_tokenizers.Punctuation(behavior))):
            cases[f"{name}_{behavior}"] = ("mistral", {"pre_tokenizer": steps(step, first)})
    for scheme, split in itertools.product(("always", "never", "first"), (True, False)):
        cases[f"metaspace_{scheme}_{split}"] = ("mistral", {"pre_tokenizer": steps(
            pre_tokenizers.Digits(individual_digits=split), pre_tokenizers.Metaspace("x", prepend_scheme=scheme, split=split))})
    for name, form in (("nfc", normalizers.NFC()), ("nfd", normalizers.NFD()), ("nfkc", normalizers.NFKC()), ("lower", normalizers.Lowercase()),
                       ("accents", forms(normalizers.NFD(), normalizers.StripAccents())), ("left", normalizers.Strip(True, False)),
                       ("right", normalizers.Strip(False, True)), ("bytes", normalizers.ByteLevel())):
        cases[f"normalizer_{name}"] = ("mistral", {"normalizer": form, "pre_tokenizer": first})
    for name, single in (("both", "<s> $A </s>"), ("twice", "<s> <s> $A"), ("behind", "$A </s>"), ("none", "$A")):
        template = processors.TemplateProcessing(single, special_tokens=[("<s>", 8), ("</s>", 9)])
        cases[f"template_{name}"] = ("gpt2", {"post_processor": processors.Sequence([template, processors.ByteLevel()])})
    texts = [s.decode("utf-8", "replace") for s in all_strings()][:SOME]
    result = {}
    for name, (base, changes) in cases.items():
        t = Tokenizer.from_file(str(HERE / f"{base}.json"))
        for part, step in changes.items():
            setattr(t, part, step)
        data = json.loads(t.to_str())
        ids = [e.ids for e in t.encode_batch(texts)]
        crcs = [zlib.crc32(struct.pack(f"<{len(row)}i", *row)) for row in ids]
        result[name] = {"base": base, "changes": {part: data[part] for part in changes},
                        "crc": zlib.crc32(struct.pack(f"<{len(crcs)}I", *crcs)), "sample": ids[:4]}
    (HERE / "variants.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


def special(shared):
    """fms-hf-tuning's dictionary, added by transformers to the tokenizers of SHARED: roles, ids, a text's ids."""
    from transformers import PreTrainedTokenizerFast

    result = {}
    cases = {"tinyllama-v0": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<PAD>"},
             "tiny-granite-vision": {"pad_token": "<PAD>"}}
    for name, tokens in cases.items():
        t = PreTrainedTokenizerFast(tokenizer_file=str(Path(shared) / name / "tokenizer.json"))
        before = len(t)
        t.add_special_tokens(tokens)
        text = "a complaint</s> b<s><|end_of_text|> <PAD><pad>"
        result[name] = {"new_tokens": len(t) - before, "pad_id": t.convert_tokens_to_ids(tokens["pad_token"]),
                        "text": text, "ids": t(text)["input_ids"]}
    (HERE / "special_tokens.json").write_text(json.dumps(result, indent=1) + "\n")


def main():
    what = sys.argv[1]
    shared = sys.argv[2] if len(sys.argv) > 2 else None
    if what == "parts":
        (HERE / "parts.json").write_text(json.dumps(PARTS, ensure_ascii=True, indent=0) + "\n")
    elif what == "train":
        for name in sys.argv[2:] or FAMILIES:
            save(family(name), HERE / f"{name}.json", name in LEGACY_MERGES)
    elif what == "golden":
        for name in FAMILIES:
            golden(Tokenizer.from_file(str(HERE / f"{name}.json")), name)
        if shared:
            for path in sorted(Path(shared).glob("*/tokenizer.json")):
                golden(Tokenizer.from_file(str(path)), path.parent.name)
        golden(Tokenizer.from_file(str(ROOT / "datasets" / "tokenizer" / "tokenizer.json")), "builtin")
    elif what == "builtin":
        builtin()
    elif what == "unicode":
        unicode()
    elif what == "sets":
        sets()
    elif what == "variants":
        variants()
    elif what == "special":
        special(shared)


if __name__ == "__main__":
    assert tokenizers.__version__.startswith("0.23"), tokenizers.__version__
    main()
