#!/usr/bin/env python3
"""Texts and labels of LLaMA-Factory's own converters and templates, beside this program's on the same files.

    python llamafactory_labels.py LLAMAFACTORY TEMPLATES PROGRAM

LLAMAFACTORY is an unpacked wheel (pip download --no-deps llamafactory, 0.9.5), of which the data modules are loaded alone.
TEMPLATES has published templates (trl's chat_templates), PROGRAM is build/*/bin/sftbench. For each form of data and each
template that both know, prints whether all text is the same, and whether the same text bears loss. White space behind a
turn's end tag may bear loss in one of them: it is counted apart. Exits with 1 when more differs.

pip install transformers jinja2.
"""
import importlib.machinery
import json
import subprocess
import sys
import tempfile
import types
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

# LLaMA-Factory's name, the published template's file, its special tokens, BOS and EOS.
PAIRS = [
    ("qwen", "qwen2_5.jinja", ["<|im_start|>", "<|im_end|>"], None, "<|im_end|>"),
    ("qwen3_nothink", "qwen3_instruct_2507.jinja", ["<|im_start|>", "<|im_end|>"], None, "<|im_end|>"),
    ("llama3", "llama3.jinja", ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
     "<|begin_of_text|>", "<|eot_id|>"),
    ("gemma", "gemma.jinja", ["<bos>", "<start_of_turn>", "<end_of_turn>"], "<bos>", "<end_of_turn>"),
]
TOOLS = [{"name": "get_weather", "description": "The weather of a place.",
          "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}]
CALL = json.dumps({"name": "get_weather", "arguments": {"place": "Oslo"}})

FORMS = {
    "alpaca": ("alpaca", {"instruction": "Name a river.", "input": "In France.", "output": "The Loire."}),
    "alpaca without input": ("alpaca", {"instruction": "Name a river.", "input": "", "output": "The Loire."}),
    "alpaca with system": ("alpaca", {"instruction": "Name a river.", "input": "", "output": "The Loire.",
                                      "system": "Be brief."}),
    "sharegpt": ("sharegpt", {"conversations": [{"from": "human", "value": "A river?"}, {"from": "gpt", "value": "The Loire."},
                                                {"from": "human", "value": "One more?"}, {"from": "gpt", "value": "The Po."}]}),
    "sharegpt with system": ("sharegpt", {"conversations": [{"from": "system", "value": "Be brief."},
                                                            {"from": "human", "value": "A river?"},
                                                            {"from": "gpt", "value": "The Loire."}]}),
    "sharegpt, column of system": ("sharegpt", {"conversations": [{"from": "human", "value": "A river?"},
                                                                  {"from": "gpt", "value": "The Loire."}],
                                                "system": "Be brief."}),
    "sharegpt with tools": ("sharegpt", {"conversations": [{"from": "human", "value": "Weather of Oslo?"},
                                                           {"from": "function_call", "value": CALL},
                                                           {"from": "observation", "value": '{"sky": "clear"}'},
                                                           {"from": "gpt", "value": "Clear."}],
                                         "system": "Be brief.", "tools": json.dumps(TOOLS)}),
    "openai": ("openai", {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A river?"},
                                       {"role": "assistant", "content": "The Loire."}]}),
}


def load(folder):
    """Its data modules without the packages that they would bring: datasets, av, PIL."""
    sys.path.insert(0, str(folder))
    for name in ("llamafactory", "llamafactory.data", "llamafactory.extras", "llamafactory.data.processor",
                 "llamafactory.hparams"):
        module = types.ModuleType(name)
        module.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = module
    datasets = types.ModuleType("datasets")
    datasets.__spec__ = importlib.machinery.ModuleSpec("datasets", None)
    for name in ("Dataset", "IterableDataset", "DatasetDict", "concatenate_datasets", "interleave_datasets"):
        setattr(datasets, name, object)
    sys.modules["datasets"] = datasets
    plugins = types.ModuleType("llamafactory.data.mm_plugin")
    plugin = types.SimpleNamespace(process_messages=lambda messages, *rest: messages,
                                   process_token_ids=lambda ids, labels, *rest: (ids, labels))
    plugins.get_mm_plugin = lambda *arguments, **named: plugin
    plugins.BasePlugin = plugins.ImageInput = plugins.VideoInput = plugins.AudioInput = object
    sys.modules["llamafactory.data.mm_plugin"] = plugins


def make_tokenizer(folder, special, bos, eos, template):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    bpe.train_from_iterator(["a river"], trainers.BpeTrainer(vocab_size=300, special_tokens=special,
                                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                            show_progress=False))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=eos, pad_token=eos, unk_token=eos,
                                        bos_token=bos or eos)
    tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(template)
    return tokenizer


def pieces(texts, losses):
    """[(text, whether it bears loss)] with neighbors of one kind together, and all text."""
    joined = []
    for text, loss in zip(texts, losses):
        if joined and joined[-1][1] == loss:
            joined[-1] = (joined[-1][0] + text, loss)
        else:
            joined.append((text, loss))
    return joined, "".join(texts)


def theirs(name, tokenizer, form, entry):
    from llamafactory.data import converter, template
    from llamafactory.data.parser import DatasetAttr
    from llamafactory.data.processor.supervised import SupervisedDatasetProcessor
    attribute = DatasetAttr("file", "data", formatting=form)
    attribute.system, attribute.tools = ("system" if "system" in entry else None), ("tools" if "tools" in entry else None)
    if form == "openai":
        for key, value in {"messages": "messages", "role_tag": "role", "content_tag": "content", "user_tag": "user",
                           "assistant_tag": "assistant", "observation_tag": "tool", "system_tag": "system"}.items():
            setattr(attribute, key, value)
    arguments = types.SimpleNamespace(train_on_prompt=False, mask_history=False, cutoff_len=4096, media_dir="",
                                      streaming=False)
    kind = {"alpaca": "Alpaca", "sharegpt": "Sharegpt", "openai": "OpenAI"}[form]
    example = getattr(converter, f"{kind}DatasetConverter")(attribute, arguments)(dict(entry))
    processor = SupervisedDatasetProcessor(template=template.TEMPLATES[name], tokenizer=tokenizer, processor=None,
                                           data_args=arguments)
    ids, labels = processor._encode_data_example(example["_prompt"], example["_response"], example["_system"],
                                                 example["_tools"], [], [], [])
    return pieces([tokenizer.convert_ids_to_tokens(i) for i in ids], [label != -100 for label in labels])


def ours(program, tokenizer, entry, folder):
    data = folder / "data.jsonl"
    data.write_text(json.dumps(entry) + "\n")
    if "instruction" in entry:  # a conversation there, a template of fields here: as messages in both
        turns = [{"role": "system", "content": entry["system"]}] if "system" in entry else []
        words = "\n".join(text for text in (entry["instruction"], entry["input"]) if text)
        turns += [{"role": "user", "content": words}, {"role": "assistant", "content": entry["output"]}]
        data.write_text(json.dumps({"messages": turns}) + "\n")
    shown = subprocess.run([program, "dataset", "show", data, "--tokenizer", tokenizer, "--format", "json"],
                           capture_output=True, text=True)
    if shown.returncode:
        return None, shown.stderr.strip().splitlines()[-1]
    tokens = json.loads(shown.stdout)
    if "tool_calls" in shown.stderr:
        return None, "the template reads no calls, which is said"
    return pieces([token["token"] for token in tokens], [token["loss"] for token in tokens])


def loss_of(found):
    return [text for text, loss in found if loss]


def without_ends(texts):
    return [text.rstrip("ĊĠ") for text in texts]


def main():
    folder, templates, program = (Path(argument) for argument in sys.argv[1:4])
    load(folder)
    wrong = 0
    for name, file, special, bos, eos in PAIRS:
        with tempfile.TemporaryDirectory() as place:
            place = Path(place)
            tokenizer = make_tokenizer(place, special, bos, eos, (templates / file).read_text())
            for form, (kind, entry) in FORMS.items():
                expected, text = theirs(name, tokenizer, kind, entry)
                found, shown = ours(program, place, entry, place)
                if found is None:
                    verdict = f"refused: {shown}"
                elif without_ends(loss_of(found)) != without_ends(loss_of(expected)):
                    verdict, wrong = f"OTHER LOSS: {loss_of(found)}, there {loss_of(expected)}", wrong + 1
                else:
                    verdict = "the same loss" + ("" if loss_of(found) == loss_of(expected) else ", but for white space")
                    verdict += ", the same text" if shown.rstrip("Ċ") == text.rstrip("Ċ") else f"; text {shown}, there {text}"
                print(f"{name}: {form}: {verdict}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
