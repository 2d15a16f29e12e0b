"""Everything that goes wrong in practice, and what must come of it: one table.

A row either ends in a sentence that says the rule, the values and the remedy, with nothing lost,
or goes on and gives what an undisturbed run gives. How fetching the data can fail has a file of
its own, ``test_data_failures.py``; every bit and byte of a checkpoint, ``test_checkpoint.py``.
"""

from __future__ import annotations

import math
import signal

import pytest
import torch
from fault_cases import (
    TEXT,
    Ends,
    GoesOn,
    another_file,
    copy,
    flip_a_bit,
    furnish,
    give_a_pickle,
    header,
    into_a_folder_that_may_not_be_written,
    model,
    resumed,
    rewrite,
    spoil_the_dictionary,
    undisturbed,
    with_data_in,
    with_memory_full,
    without_gpu,
)
from helpers import lengths_to_keys, randn, tiny_model
from lm_cases import tiny_decoder
from stopped_cases import (
    STOPPED,
    full_disk,
    impatient,
    killed_at_random_moments,
    killed_while_it_writes,
    not_a_number,
    not_alone,
    signalled,
    stopped_while_drawing,
)

from transformer_lab import pretrained
from transformer_lab.attention import Mask, attend, attention_weights
from transformer_lab.checkpoint import load_tensors
from transformer_lab.decode import TopP, pick, sampling
from transformer_lab.models import ModelConfig

pytestmark = pytest.mark.plain

Q, K, V = randn(2, 3, 5, 7), randn(2, 3, 11, 7, seed=1), randn(2, 3, 11, 7, seed=2)
KEYS = lengths_to_keys([3, 5], 9)
IDS = torch.tensor([[3, 4, 5, 6]])
NOTHING_LEFT = torch.full((1, 5), -math.inf)
SAY = "generate cab --model {g2p}"
LOOK = "attention cat --model g2p-class"
WRITE = "generate 'to be' --model {lm} --length 9"
TRAIN = "train g2p --preset test --pairs {pairs} --out {new} --device cpu"
RESUME = "train g2p --resume {g2p}"
AGAIN = "restore it or begin a new run"


def draws(p) -> set[int]:
    """All that is drawn where the first and the last symbol are ruled out, up to both edges."""
    logits_BV = torch.tensor([[-math.inf, 1.0, 3.0, 2.0, -math.inf]]).repeat(4001, 1)
    p_BV = sampling(2.0, top_k=4, top_p=0.9999).distribution(logits_BV, logits_BV.long())
    u_B = torch.linspace(0, math.nextafter(1, 0), 4001, dtype=p_BV.dtype)
    assert u_B[0] == 0 and 1 - 1e-15 < u_B[-1] < 1
    return set(pick(p_BV, u_B).tolist())


def writes(prompt: str, **options):
    def write(p) -> str:
        return pretrained.load(p.lm).write(prompt, 40, sampling(**options), seed=3)

    return write


def reads(name: str, then):
    """What a file of tensors held, looked at when something else has been done to it."""

    def read(p) -> dict[str, list]:
        tensors, _ = load_tensors(p.folder / name)
        kept = (p.folder / name).read_bytes()
        then(p)
        values = {name: t.tolist() for name, t in tensors.items()}
        (p.folder / name).write_bytes(kept)
        return values

    return read


def trains(name: str, text: bytes):
    """The weights that a language model has learnt from a text."""

    def train(p) -> bytes:
        (p.folder / f"{name}.txt").write_bytes(text)
        line = f"train lm --preset test --steps 3 --text {{{name}}} --out {{here}}/{name}-run"
        assert p.command(line).code == 0
        return (p.folder / f"{name}-run" / "weights.safetensors").read_bytes()

    return train


FAULTS = [
    # ---- arrays: name, what is done, rule, values, remedy ----
    Ends("queries and keys of different width", lambda p: attend(Q, K[..., :5], V),
         "must be equally wide", ("queries are 7", "keys are 5"), "project both to d_k"),
    Ends("the same, in the open", lambda p: attention_weights(Q[..., :3], K),
         "must be equally wide", ("queries are 3", "keys are 7"), "project both to d_k"),
    Ends("float64 from numpy among float32", lambda p: attend(Q.float(), K, V),
         "must be of one type", ("torch.float32", "torch.float64"), "convert one"),
    Ends("heads that cannot be shared", lambda p: attend(Q, K[:, :2], V[:, :2]),
         "must be a multiple", ("3 and 2",), "choose a divisor of 3"),
    Ends("a mask of floats", lambda p: Mask(keys_BS=torch.ones(2, 11)),
         "must hold booleans", ("torch.float32",), "mask > 0"),
    Ends("a mask for another source", lambda p: attend(Q, K, V, Mask(keys_BS=KEYS)),
         "one entry for each key", ("11 keys", "9 entries"), "from the same source"),
    Ends("ids that are floats", lambda p: tiny_model()(IDS.float(), IDS),
         "must be int64 or int32", ("torch.float32", "(1, 4)"), ".long()"),
    Ends("target ids that are floats", lambda p: tiny_model()(IDS, IDS.double()),
         "must be int64 or int32", ("target", "torch.float64"), ".long()"),
    Ends("ids without a batch", lambda p: tiny_decoder()(IDS[0]),
         "have two axes", ("torch.int64", "(4,)"), "ids[None]"),
    Ends("a model whose heads do not divide it", lambda p: ModelConfig(9, 11, d_model=10, h=3),
         "must divide the width", ("h = 3", "d_model = 10"), "divisors of 10"),
    Ends("more tokens than a model takes", lambda p: tiny_decoder()(torch.ones(1, 20).long()),
         "at most 19 tokens", ("holds 20",), "cut it or raise max_length"),
    Ends("a mask that rules out every symbol", lambda p: sampling().draw(NOTHING_LEFT, IDS),
         "at least one number in each row", ("row 0 is -inf",), "look for"),
    # ---- words, texts, prompts ----
    Ends("an empty word", "generate '' --model {g2p}",
         "at least one letter", ("an empty one",), "write its letters"),
    Ends("a blank word", "attention ' ' --model {g2p}",
         "at least one letter", ("an empty one",), "write its letters"),
    Ends("a letter it has never seen", "generate naïve --model {g2p}",
         "Only symbols of the vocabulary", ("'n', 'v', 'ï' are not",), "use these: a b"),
    Ends("a word in another script", "attention 名 --model {g2p}",
         "Only symbols of the vocabulary", ("'名' is not",), "use these: a b"),
    Ends("too long a word", f"generate {'b' * 65} --model {{g2p}}",
         "at most 64 tokens", ("holds 65",), "shorten it"),
    Ends("an empty prompt", "generate '' --model {lm}",
         "at least one symbol", ("an empty one",), "a line end will do"),
    Ends("a symbol that no text had", "generate 'to be €' --model {lm}",
         "Only symbols of the vocabulary", ("'€' is not",), "use these: '\\n' ' ' , : a b"),
    Ends("two words, one of them empty", "generate cab '' --model {g2p}",
         "at least one letter", ("an empty one",), "write its letters"),
    GoesOn("a prompt longer than the context", writes(TEXT[:100]), writes(TEXT[100 - 32:100])),
    # ---- options of decoding ----
    Ends("beam 0", f"{SAY} --beam 0", "greater than or equal to 1", ("--beam",), "-h", code=2),
    Ends("a beam beyond all memory", f"{SAY} --beam 201",
         "1 to 200 wide", ("got 201",), "5 is usual"),
    Ends("top-p 0", f"{WRITE} --top-p 0", "greater than 0 and at most 1", ("got 0.0",), "1 keeps"),
    Ends("top-p 1.5", f"{WRITE} --top-p 1.5", "at most 1", ("got 1.5",), "1 keeps every"),
    Ends("top-p that is no number", lambda p: TopP(math.nan), "at most 1", ("got nan",), "1 keeps"),
    Ends("top-k 0", f"{WRITE} --top-k 0", "at least 1", ("got 0;",), "1 keeps the likeliest"),
    Ends("temperature 0", f"{WRITE} --temperature 0",
         "finite number greater than 0", ("got 0.0",), "use greedy"),
    Ends("a negative temperature", f"{WRITE} --temperature -0.7",
         "finite number greater than 0", ("got -0.7",), "use greedy"),
    Ends("a temperature that overflows", f"{WRITE} --temperature 1e-310",
         "must be numbers or −∞", ("row 0 is inf",), "GREEDY is meant"),
    Ends("a seed beyond the generator", f"{WRITE} --seed {2**64}",
         "between 0 and 2³² − 1", (str(2**64),), "choose one of these"),
    Ends("a beam for a text", f"{WRITE} --beam 3",
         "cannot be used with a language model", ("--beam",), "leave that out"),
    GoesOn("top-p 1 and top-k beyond the vocabulary",
           writes("to be", top_k=10**6, top_p=1.0), writes("to be")),
    GoesOn("a draw where symbols are ruled out", draws, lambda p: {1, 2, 3}),
    # ---- options of training ----
    *(Ends(f"--{option} {value}", f"{TRAIN} --{option} {value}", rule, (f"{got}",), remedy)
      for option, value, rule, got, remedy in (
          ("steps", 0, "steps must be at least 1", "got 0", "raise it"),
          ("batch-size", 10**20, "batch_size must be at most 1000000", str(10**20), "lower it"),
          ("batch-size", -3, "batch_size must be at least 1", "got -3", "raise it"),
          ("accumulate", 0, "accumulate must be at least 1", "got 0", "raise it"),
          ("accumulate", 10**9, "at most 1000", "got 1000000000", "make batch_size larger"),
          ("patience", 0, "patience must be at least 1", "got 0", "raise it"),
          ("warmup", -1, "warmup must be at least 0", "got -1", "raise it"),
          ("seed", -1, "seed must be at least 0", "got -1", "raise it"),
          ("seed", 2**32, "seed must be below 2³²", str(2**32), "choose a smaller one"),
          ("lr", -0.1, "lr and clip must be above 0", "lr = -0.1", "0.003"),
          ("lr", "nan", "lr finite", "lr = nan", "0.003"),
          ("lr", "inf", "lr finite", "lr = inf", "0.003"),
          ("preset", "huge", "must be one of test, class, lab", "'huge'", "choose one"),
          ("precision", "fp16", "needs a CUDA device", "computes on cpu", "choose fp32 or bf16"),
          ("precision", "fp8", "must be auto, fp32, bf16 or fp16", "'fp8'", "choose one"),
          ("device", "tpu", "must be one that torch can use", "'tpu'", "choose one"),
          ("threads", 10**6, "as many threads as the computer has", "1000000", "choose fewer"),
      )),
    Ends("CUDA where there is none", without_gpu(f"{TRAIN} --device cuda"),
         "must be one that torch can use here", ("'cuda'",), "leave it at auto"),
    Ends("a model that is not there", "generate cab --model g2p-huge",
         "is a folder with a config.json", ("g2p-huge has none",), "g2p-class"),
    Ends("a rate of a million", f"{TRAIN} --lr 1e6 --warmup 0", "must stay finite numbers",
         ("in step 2, at learning rate 1e+06", "encoder.0", "The state after step 0 is on disk."),
         "Train with a smaller --lr", leaves=[f"new/{name}" for name in STOPPED]),
    Ends("a rate beyond all numbers", f"{TRAIN} --lr 1e300", "must stay finite numbers",
         ("in step 2, at learning rate", "the learning rate is too high"),
         "Train with a smaller --lr", leaves=[f"new/{name}" for name in STOPPED]),
    Ends("memory that is full", with_memory_full, "The memory of the device is full",
         ("--batch-size",), "take a smaller", leaves=[f"new/{name}" for name in STOPPED]),
    # ---- data ----
    Ends("data that were never fetched", with_data_in("nowhere", "train g2p --out {new}"),
         "is not there yet", ("{nowhere}/cmudict",), "run `transformer-lab data`"),
    Ends("data with a wrong hash", with_data_in("data", "evaluate g2p-class"),
         "is damaged: its SHA-256", ("{here}/data/cmudict", "81917843"), "fetches it again",
         spoil_the_dictionary),
    Ends("a file that is not there", "train lm --preset test --text {nowhere} --out {new}",
         "There is no file", ("{nowhere}",), "check the name"),
    Ends("a text that is not UTF-8", "train lm --preset test --text {text} --out {new}",
         "not UTF-8", ("{text}, line 3", "0xe4 at offset 43"), "save the file as UTF-8",
         rewrite("text.txt", lambda old: old[:42] + b"\n\xe4" + old)),
    Ends("a text too short", "train lm --preset test --text {text} --out {new}",
         "is too short", ("999 characters", "at least 1000"), "hold out the rest",
         rewrite("text.txt", lambda old: old[:999])),
    Ends("a device instead of a text", "train lm --preset test --text /dev/zero --out {new}",
         "must be a file", ("/dev/zero",), "write its content into a file"),
    *(Ends(f"pairs, {line.split()[0]}: {rule}", line, rule, ("{pairs}", *values), remedy,
           rewrite("pairs.txt", lambda _, content=content: content))
      for line in ("data --pairs {pairs}", "train g2p --preset test --pairs {pairs} --out {new}")
      for content, rule, values, remedy in (
          (b"", "is empty", ("`source<TAB>target`",), "it must hold lines"),
          (b"cab\tK\nb\xe4d\tB\n", "not UTF-8", ("line 2", "0xe4"), "save the file as UTF-8"),
          (b"cab\tK\n\nbad B\n", "exactly one must stand", ("line 3", "no tab"), "between source"),
          (b"cab\t\n", "the target is empty", ("line 1",), "write it, or take the line out"),
          (b"cab\tK AE B\n", "too small to split", ("1 different",), "give a few hundred"),
      )),
    Ends("evaluation without the run's data", "evaluate {g2p}", "There is no file",
         ("{here}/pairs.txt",), "check the name", lambda p: (p.folder / "pairs.txt").unlink()),
    Ends("a resume with other data", RESUME, "must be those the run began with",
         ("{pairs} has changed",), AGAIN, rewrite("pairs.txt", lambda old: old + b"bb\tB\n")),
    Ends("a resume with another text", "train lm --resume {lm}", "must be those the run began",
         ("{text} has changed",), AGAIN, rewrite("text.txt", lambda old: old + b"!")),
    Ends("a resume of the other task", "train g2p --resume {lm}", "must be of the pronouncing",
         ("of a language model",), "train lm --resume {lm}"),
    Ends("a resume the other way round", "train lm --resume {g2p}", "must be of a language model",
         ("it is of 'g2p'",), "train g2p --resume {g2p}"),
    Ends("a resume with new settings", f"{RESUME} --lr 1 --steps 9", "keeps the settings it began",
         ("--lr, --steps",), "begin a new run"),
    *(Ends(f"a resume of {what}", f"train g2p --resume {what}", "is a folder with a config.json",
           (f"{what} has none",), "`transformer-lab train` wrote")
      for what in ("{nowhere}", "{here}", "{text}")),
    Ends("a resume of a finished run without its log", RESUME, "so there is nothing to resume",
         ("{g2p} has finished", "metrics.jsonl is gone"), "the weights beside it are whole",
         lambda p: (p.g2p / "metrics.jsonl").unlink()),
    Ends("a run over a run", "train g2p --preset test --out {g2p}", "needs a folder of its own",
         ("{g2p} already holds a run",), "--resume {g2p}"),
    Ends("a run into a file", "train g2p --preset test --out {text}", "needs a folder",
         ("{text} is a file",), "choose another name"),
    Ends("a run below a file", "train g2p --preset test --pairs {pairs} --out {text}/run",
         "Cannot use", ("{text}", "directory"), "check the path"),
    GoesOn("a text from Windows", trains("windows", TEXT.replace("\n", "\r\n").encode("utf-8-sig")),
           trains("plain", TEXT.encode())),
    # ---- checkpoints: damaged, foreign, malicious ----
    Ends("weights with a wrong bit", SAY, "cannot be read as a checkpoint",
         ("{g2p}/weights.safetensors", "SHA-256"), "use an intact copy",
         rewrite("g2p/weights.safetensors", flip_a_bit)),
    Ends("weights cut off", SAY, "cannot be read as a checkpoint",
         ("{g2p}/weights.safetensors",), "use an intact copy",
         rewrite("g2p/weights.safetensors", lambda old: old[:-9])),
    Ends("a checkpoint cut off", "train g2p --resume {unfinished}", "cannot be read as",
         ("{unfinished}/checkpoint.safetensors",), "train again",
         rewrite("unfinished/checkpoint.safetensors", lambda old: old[:999])),
    Ends("a text instead of weights", SAY, "not a safetensors file", ("{g2p}/weights",),
         "use an intact copy", rewrite("g2p/weights.safetensors", lambda _: TEXT.encode())),
    *(Ends(f"a {kind} instead of weights", SAY, "not a safetensors file", ("{g2p}/weights",),
           "use an intact copy", give_a_pickle(kind)) for kind in ("pickle", "torch.save")),
    Ends("a header as long as no disk", SAY, "cannot be read as a checkpoint", ("{g2p}/weights",),
         "use an intact copy", rewrite("g2p/weights.safetensors", header(2**62))),
    Ends("a header that claims terabytes", SAY, "cannot be read as a checkpoint",
         ("{g2p}/weights",), "use an intact copy", rewrite(
             "g2p/weights.safetensors", header(shape=[10**6] * 2, data_offsets=[0, 4 * 10**12]))),
    Ends("a header that claims a little more", SAY, "cannot be read as a checkpoint",
         ("{g2p}/weights",), "use an intact copy",
         rewrite("g2p/weights.safetensors", header(shape=[10**9], data_offsets=[0, 64]))),
    GoesOn("a checkpoint that is overwritten after it was read", reads("g2p/checkpoint.safetensors",
           rewrite("g2p/checkpoint.safetensors", lambda old: b"\0" * len(old))),
           reads("g2p/checkpoint.safetensors", lambda p: None)),
    *(Ends(f"a configuration that asks for {field} = {value:.0e}", SAY,
           "at most 1,000 layers and 1,000,000,000 weights", (f"{field} = {value}",),
           "restore the configuration", model(**{field: value}))
      for field, value in (("d_model", 10**12), ("d_ff", 10**9), ("decoder_layers", 2000),
                           ("max_length", 10**25))),
    *(Ends(f"a configuration that names another file, {line.split()[0]}", line,
           "must be those the run began", ("{here}/diary.txt has changed",), AGAIN, another_file)
      for line in (RESUME, "evaluate {g2p}")),
    Ends("a configuration that is half there", SAY, "is damaged or no JSON", ("{g2p}/config.json",),
         "restore it", rewrite("g2p/config.json", lambda old: old[: len(old) // 2])),
    Ends("weights of another size", SAY, "must have shape",
         ("(65, 32)", "(64, 32)"), "do not belong together", model(d_ff=65)),
    # ---- runs and folders ----
    Ends("the use of an unfinished run", "generate cab --model {unfinished}", "has not finished",
         ("{unfinished}",), "train g2p --resume {unfinished}"),
    Ends("the export of an unfinished run", "export {unfinished} {new}", "has not finished",
         ("{unfinished}",), "train g2p --resume {unfinished}"),
    Ends("the export over a run", "export {g2p} {unfinished}", "needs a folder of its own",
         ("{unfinished} holds a run",), "choose another folder"),
    Ends("a layer that is not there", f"{LOOK} --layer 3", "must lie between 1 and 2",
         ("layer", "got 3"), "choose one of these"),
    Ends("a head that is not there", f"{LOOK} --head 5", "must lie between 1 and 4",
         ("head", "got 5"), "choose one of these"),
    Ends("a picture of another kind", f"{LOOK} --out {{here}}/x.bmp", "must end in one of",
         ("x.bmp",), ".png, .pdf, .svg"),
    Ends("a picture with a folder's name", f"{LOOK} --out {{here}}/x.png", "is a folder",
         ("{here}/x.png",), "another", lambda p: (p.folder / "x.png").mkdir()),
    Ends("a judgement of training words", "evaluate {g2p} --part train", "must be dev or test",
         ("'train'",), "held-out words"),
    Ends("a folder that is read-only", into_a_folder_that_may_not_be_written, "Cannot use",
         ("{here}/locked/run", "Read-only file system"), "check the path and its rights"),
    # ---- a training that is disturbed ends as if nothing had been ----
    resumed("Ctrl-C", signalled, signal.SIGINT),
    resumed("SIGTERM", signalled, signal.SIGTERM),
    resumed("Ctrl-C twice", impatient),
    resumed("Ctrl-C while the curve is drawn", stopped_while_drawing),
    resumed("kill -9 at ten random moments", killed_at_random_moments, 10),
    *(resumed(f"kill -9 while a file is {moment}", killed_while_it_writes, moment)
      for moment in ("opened", "half", "renamed")),
    resumed("NaN in the loss", not_a_number, math.nan),
    resumed("an infinite loss", not_a_number, math.inf),
    resumed("a full disk", full_disk),
    resumed("two trainings in one folder", not_alone),
]  # fmt: skip


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    return furnish(tmp_path_factory.mktemp("furnished"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What the training leaves that nothing disturbs, and its seconds."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_comes_of_it(fault, furnished, tmp_path, request):
    whole = request.getfixturevalue("alone") if fault.trains else ((), 0.0)
    fault.check(copy(furnished, tmp_path / "place", tmp_path / "disturbed", whole))


def test_the_names_of_the_rows_differ():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
