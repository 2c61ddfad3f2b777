#!/usr/bin/env python3
"""Writes src/input/tokenizer/unicode_tables.cpp: character classes as Hugging Face `tokenizers` sees them.

Its components each carry a Unicode version of their own (Oniguruma for patterns, Rust's standard library for
digits, the `regex` crate for words, an old table for normalization), so the classes are asked of the library
itself, one code point at a time, instead of taken from one edition of the Unicode database.

Usage: make_unicode_tables.py > src/input/tokenizer/unicode_tables.cpp     (needs tokenizers 0.23 and libutf8proc.so.2)
"""
import ctypes
import unicodedata

import tokenizers
from tokenizers import Regex
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CLASSES = ["kLetter", "kNumber", "kSpace", "kDigit", "kWord", "kPunctuation", "kMark"]


def matched_by(pattern):
    """Code points that an Oniguruma pattern of one character matches."""
    found = set()
    delete = N.Replace(Regex(pattern), "")
    for start in range(0, len(CODE_POINTS), 16384):
        chunk = CODE_POINTS[start : start + 16384]
        found.update(set(chunk) - set(map(ord, delete.normalize_str("".join(map(chr, chunk))))))
    return found


def isolated_by(pre_tokenizer):
    return {c for c in CODE_POINTS if len(pre_tokenizer.pre_tokenize_str(f"a{chr(c)}a")) == 3}


def classes():
    space = matched_by(r"\s")
    whitespace = P.Whitespace()
    word = {c for c in CODE_POINTS if c not in space and len(whitespace.pre_tokenize_str(f"a{chr(c)}a")) == 1}
    strip = N.StripAccents()
    return {
        "kLetter": matched_by(r"\p{L}"),
        "kNumber": matched_by(r"\p{N}"),
        "kSpace": space,
        "kDigit": isolated_by(P.Digits(individual_digits=True)),
        "kWord": word,
        "kPunctuation": isolated_by(P.Punctuation()),
        "kMark": {c for c in CODE_POINTS if strip.normalize_str(chr(c)) == ""},
    }


def runs(value_of):
    """(first, last, value) of maximal runs with one value; value None is left out."""
    result = []
    for c in range(0x110000):
        value = value_of(c)
        if value is None:
            continue
        if result and result[-1][1] == c - 1 and result[-1][2] == value:
            result[-1][1] = c
        else:
            result.append([c, c, value])
    return result


# What a pattern may ask of a character besides its general category (src/input/tokenizer/onig.cpp), and the
# scripts of Unicode 14 that have gained characters since.
PROPERTIES = ("Alphabetic Lowercase Emoji Emoji_Presentation Emoji_Modifier_Base Extended_Pictographic Ideographic "
              "Common Inherited Latin Cyrillic Arabic Han Hiragana Katakana Kannada Lao Devanagari Balinese Telugu "
              "Khojki Egyptian_Hieroglyphs Bengali Georgian Khitan_Small_Script Brahmi Gurmukhi "
              "Tirhuta").split()


def newer_than_pcre2():
    """Code points whose general category Oniguruma knows and Unicode 14 (PCRE2 10.40 to 10.42) does not yet:
    replaced, in the text that PCRE2 sees, by a code point of the same category, the same properties and the same
    UTF-8 length. A character of a script that is newer itself is replaced by one of any script."""
    categories = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf".split()
    newer = {}
    assert unicodedata.unidata_version == "14.0.0", "run with Python 3.11"
    for category in categories:
        for c in matched_by(rf"\p{{{category}}}"):
            if unicodedata.category(chr(c)) != category:
                newer[c] = category
    sets = {name: matched_by(rf"\p{{{name}}}") for name in PROPERTIES}
    scripts = set(PROPERTIES[PROPERTIES.index("Common"):])

    def signature(c, category, names):
        return (category, len(chr(c).encode()), *(name for name in names if c in sets[name]))

    without_script = [name for name in PROPERTIES if name not in scripts]
    first = {}
    for c in CODE_POINTS:
        category = unicodedata.category(chr(c))
        if category not in ("Cn", "Co", "Cs"):
            for names in (PROPERTIES, without_script):
                first.setdefault((names is PROPERTIES, signature(c, category, names)), c)
    replacement = {}
    for c, category in newer.items():
        same = first.get((True, signature(c, category, PROPERTIES)))
        has_script = any(c in sets[name] for name in scripts)
        if same is None or not has_script:
            same = first[False, signature(c, category, without_script)]
        replacement[c] = same
    return runs(replacement.get)


def normalization_barriers():
    """Code points that utf8proc decomposes, composes or reorders and Hugging Face's older tables do not."""
    lib, libc = ctypes.CDLL("libutf8proc.so.2"), ctypes.CDLL(None)
    lib.utf8proc_map.restype = ctypes.c_ssize_t
    lib.utf8proc_map.argtypes = [ctypes.c_char_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]
    libc.free.argtypes = [ctypes.c_void_p]
    options = {"NFC": 2 | 8, "NFD": 2 | 16, "NFKC": 2 | 8 | 4, "NFKD": 2 | 16 | 4}

    def utf8proc(form, text):
        data, out = text.encode(), ctypes.c_void_p()
        size = lib.utf8proc_map(data, len(data), ctypes.byref(out), options[form])
        result = ctypes.string_at(out, size).decode()
        libc.free(out)
        return result

    reference = {form: getattr(N, form)() for form in options}
    # Reordering shows beside marks of low, middle and high combining class; Hangul differs in no version.
    probes = ["{}", "{}\u0334", "{}\u0300", "{}\u0316", "\u0345{}", "\u0300{}", "\u0316{}", "{}\u094d", "\u3099{}"]
    barriers = set()
    for c in CODE_POINTS:
        if 0xAC00 <= c < 0xD7A4:
            continue
        texts = [("NFD", p.format(chr(c))) for p in probes] + [(f, chr(c)) for f in ("NFC", "NFKC", "NFKD")]
        if any(reference[f].normalize_str(t) != utf8proc(f, t) for f, t in texts):
            barriers.add(c)
            if reference["NFD"].normalize_str(chr(c)) == chr(c) and utf8proc("NFC", utf8proc("NFD", chr(c))) == chr(c):
                parts = utf8proc("NFD", chr(c))
                if len(parts) > 1:
                    barriers.add(ord(parts[-1]))
    return runs(lambda c: 1 if c in barriers else None)


def lower_case():
    """Lower-case mappings that utf8proc does not know: (code point, lower-case text)."""
    lib = ctypes.CDLL("libutf8proc.so.2")
    lower = N.Lowercase()
    return [(c, lower.normalize_str(chr(c))) for c in CODE_POINTS
            if lower.normalize_str(chr(c)) != chr(lib.utf8proc_tolower(c))]


def table(record, name, cells):
    print(f"static constexpr {record} {name}Data[] = {{")
    line = "   "
    for cell in cells:
        if len(line) + len(cell) > 100:
            print(line)
            line = "   "
        line += " " + cell
    print(line)
    print("};")
    print(f"const std::span<const {record}> {name} = {name}Data;\n")


def main():
    sets = classes()

    def class_bits(c):
        bits = sum(1 << i for i, name in enumerate(CLASSES) if c in sets[name])
        return bits or None

    print(f"// Generated by tests/reference/tokenizers/make_unicode_tables.py with tokenizers {tokenizers.__version__}.")
    print("// Over the usual length: it is data.")
    print("// clang-format off")
    print('#include "tokenizer/unicode.h"\n\nnamespace sftbench {\n')
    table("ClassRun", "kClassRuns", [f"{{{a:#x},{b:#x},{v}}}," for a, b, v in runs(class_bits)])
    table("NewerRun", "kNewerThanPcre2", [f"{{{a:#x},{b:#x},{v:#x}}}," for a, b, v in newer_than_pcre2()])
    table("CodePointRun", "kNormalizationBarriers",
          [f"{{{a:#x},{b:#x}}}," for a, b, _ in normalization_barriers()])
    table("LowerCase", "kLowerCaseBeyondUtf8proc",
          ["{%#x,\"%s\"}," % (c, "".join(f"\\x{b:02x}" for b in text.encode())) for c, text in lower_case()])
    print("}  // namespace sftbench")


if __name__ == "__main__":
    main()
