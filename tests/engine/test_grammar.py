"""Whatever a model would like to say, what comes out under the masks follows the grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from stoker.engine.errors import GrammarError
from stoker.engine.grammar import GrammarCompiler, Mask, MaskWorker, Matcher
from stoker.engine.protocol import Grammar, GrammarKind
from tests.tiny_models import END_OF_TEXT, TURN_END, TURN_START, VOCABULARY

# In the model, but not in its tokenizer.
MODEL_VOCABULARY = VOCABULARY + 50

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "size": {"type": "number"},
        "colour": {"enum": ["red", "green", None]},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "pattern": "^[A-Z][a-z]{1,5}$"}, "home": {"type": "boolean"}},
            "required": ["street", "home"],
            "additionalProperties": False,
        },
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "size", "colour", "address", "tags"],
    "additionalProperties": False,
}
LIST_OF_WORDS = 'start: "[" WORD ("," WORD)* "]"\nWORD: /[a-z]{1,4}/'


@pytest.fixture(scope="module")
def compiler(tiny_model: Path) -> GrammarCompiler:
    return GrammarCompiler(tiny_model, MODEL_VOCABULARY, [END_OF_TEXT, TURN_END])


@pytest.fixture
def worker() -> Iterator[MaskWorker]:
    worker = MaskWorker(MODEL_VOCABULARY)
    yield worker
    worker.close()


def schema(value: object) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(value))


def regex(source: str) -> Grammar:
    return Grammar(GrammarKind.REGEX, source)


def ids_of(mask: NDArray[np.uint32]) -> list[int]:
    """The tokens that a mask allows."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    found: list[int] = np.flatnonzero(bits).tolist()
    return found


def random_output(matcher: Matcher, random: Random, length: int = 400) -> list[int] | None:
    """Tokens drawn evenly from those allowed, up to an end of text; None when there was none within `length`."""
    tokens: list[int] = []
    while len(tokens) < length:
        allowed = ids_of(matcher.mask())
        ends = sorted({END_OF_TEXT, TURN_END}.intersection(allowed))
        token = random.choice(ends if ends and random.random() < 0.3 else allowed)
        matcher.advance(token)
        if token in {END_OF_TEXT, TURN_END}:
            return tokens
        tokens.append(token)
    return None


def is_person(text: str) -> bool:
    value: dict[str, Any] = json.loads(text)
    address = value.pop("address")
    return (
        len(value.pop("name")) <= 8
        and 0 <= value.pop("age") <= 150
        and isinstance(value.pop("size"), int | float)
        and value.pop("colour") in {"red", "green", None}
        and 1 <= len(tags := value.pop("tags")) <= 3
        and set(tags) <= {"a", "b"}
        and re.fullmatch(r"[A-Z][a-z]{1,5}", address.pop("street")) is not None
        and address.pop("home") in {True, False}
        and not (value or address)
    )


def is_object(text: str) -> bool:
    return isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    ("grammar", "follows"),
    [
        (schema(PERSON), is_person),
        (Grammar(GrammarKind.JSON_OBJECT), is_object),
        (regex(r"[a-c]+-[0-9]{2,3}"), re.compile(r"[a-c]+-[0-9]{2,3}").fullmatch),
        (Grammar(GrammarKind.LARK, LIST_OF_WORDS), re.compile(r"\[[a-z]{1,4}(,[a-z]{1,4})*\]").fullmatch),
    ],
    ids=lambda value: str(value.kind) if isinstance(value, Grammar) else "",
)
def test_random_tokens_under_the_masks_follow_the_grammar(
    compiler: GrammarCompiler, grammar: Grammar, follows: Callable[[str], object]
) -> None:
    random = Random(0)
    outputs = [random_output(compiler.matcher(grammar), random) for _ in range(60)]
    finished = [bytes(output).decode() for output in outputs if output is not None]
    assert len(finished) > 10
    for text in finished:
        assert follows(text), text


def test_a_mask_has_a_bit_for_each_token_of_the_model(compiler: GrammarCompiler) -> None:
    mask = compiler.matcher(regex("a|b")).mask()
    assert mask.shape == (-(-MODEL_VOCABULARY // 32),)
    assert ids_of(mask) == [ord("a"), ord("b")]


def test_tokens_without_text_and_special_ones_are_never_in_a_text(compiler: GrammarCompiler) -> None:
    matcher = compiler.matcher(schema({"type": "string"}))
    matcher.advance(ord('"'))
    assert not [token for token in ids_of(matcher.mask()) if token >= TURN_START - 1]


def test_the_end_of_text_is_allowed_once_the_grammar_is_satisfied(compiler: GrammarCompiler) -> None:
    matcher = compiler.matcher(regex("ab?"))
    assert not matcher.accepting
    matcher.advance(ord("a"))
    assert (matcher.accepting, matcher.stopped) == (True, False)
    assert ids_of(matcher.mask()) == [ord("b"), END_OF_TEXT, TURN_END]
    matcher.advance(ord("b"))
    assert (matcher.accepting, matcher.stopped) == (True, True)
    assert ids_of(matcher.mask()) == [END_OF_TEXT, TURN_END]
    matcher.advance(TURN_END)
    assert (matcher.accepting, matcher.stopped) == (True, True)
    assert ids_of(matcher.mask()) == [END_OF_TEXT, TURN_END]


def test_a_token_that_is_not_allowed_is_refused_and_changes_nothing(compiler: GrammarCompiler) -> None:
    matcher = compiler.matcher(regex("ab"))
    with pytest.raises(GrammarError, match="the token 98 is not allowed"):
        matcher.advance(ord("b"))
    assert matcher.failure is None
    assert ids_of(matcher.mask()) == [ord("a")]


def test_a_resumed_matcher_is_where_the_output_left_it(compiler: GrammarCompiler) -> None:
    random, grammar = Random(1), schema(PERSON)
    first = compiler.matcher(grammar)
    output: list[int] = []
    for _ in range(60):
        resumed = compiler.matcher(grammar, output)
        assert np.array_equal(resumed.mask(), first.mask())
        assert resumed.accepting == first.accepting
        token = random.choice(ids_of(first.mask()))
        first.advance(token)
        if first.stopped:
            break
        output.append(token)


def test_an_output_that_never_followed_the_grammar_cannot_be_resumed(compiler: GrammarCompiler) -> None:
    with pytest.raises(GrammarError, match="the token 120 is not allowed"):
        compiler.matcher(regex("ab"), list(b"ax"))


@pytest.mark.parametrize("grammar", [schema(PERSON), regex("a*b"), Grammar(GrammarKind.LARK, LIST_OF_WORDS)])
def test_rolling_back_is_as_if_nothing_had_been_said(compiler: GrammarCompiler, grammar: Grammar) -> None:
    random = Random(2)
    for _ in range(20):
        matcher = compiler.matcher(grammar)
        masks, states = [matcher.mask()], [(matcher.accepting, matcher.stopped)]
        for _ in range(random.randrange(1, 40)):
            token = random.choice(ids_of(masks[-1]))
            matcher.advance(token)
            masks.append(matcher.mask())
            states.append((matcher.accepting, matcher.stopped))
            if token in {END_OF_TEXT, TURN_END}:
                break
        back = random.randrange(len(masks))
        matcher.rollback(back)
        assert np.array_equal(matcher.mask(), masks[-1 - back])
        assert (matcher.accepting, matcher.stopped) == states[-1 - back]


def test_the_masks_of_a_draft_are_those_of_saying_it(compiler: GrammarCompiler) -> None:
    draft = [*b"ab", TURN_END]
    matcher, other = compiler.matcher(regex("ab+")), compiler.matcher(regex("ab+"))
    masks = matcher.masks(draft)
    for mask, token in zip(masks, draft, strict=False):
        assert np.array_equal(mask, other.mask())
        other.advance(token)
    assert np.array_equal(masks[-1], other.mask())
    assert ids_of(matcher.mask()) == [ord("a")]


def test_the_allowed_part_of_a_draft_ends_with_the_first_token_that_is_not(compiler: GrammarCompiler) -> None:
    matcher = compiler.matcher(regex("ab+"))
    assert matcher.allowed([]) == 0
    assert matcher.allowed(list(b"abbc")) == 3
    assert matcher.allowed([*b"ab", TURN_END, END_OF_TEXT]) == 3
    assert ids_of(matcher.mask()) == [ord("a")]
    for token in (*b"ab", TURN_END):
        matcher.advance(token)
    assert matcher.allowed([TURN_END]) == 0


def test_tokens_that_must_come_are_known_beforehand(compiler: GrammarCompiler) -> None:
    matcher = compiler.matcher(schema({"type": "object", "properties": {"size": {}}, "required": ["size"]}))
    matcher.advance(ord("{"))
    matcher.advance(ord('"'))
    assert matcher.forced() == list(b'size"')
    assert compiler.matcher(regex("a|b")).forced() == []
    assert compiler.matcher(regex("a"), [*b"a", TURN_END]).forced() == []


def test_a_grammar_is_compiled_once(compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.matcher(regex("once")).advance(ord("o"))
    monkeypatch.setattr("stoker.engine.grammar.LLMatcher", None)
    assert ids_of(compiler.matcher(regex("once")).mask()) == [ord("o")]


@pytest.mark.parametrize(
    ("grammar", "sentence"),
    [
        (Grammar(GrammarKind.JSON_SCHEMA, "{not json"), "the json_schema is not JSON"),
        (schema({"type": "objekt"}), "the json_schema cannot be used: Invalid type: objekt"),
        (schema({"not": {}}), 'the json_schema cannot be used: Unimplemented keys: ["not"]'),
        (regex("(ab"), "the regex cannot be used: .*unclosed group"),
        (Grammar(GrammarKind.LARK, "start: word"), 'the lark cannot be used: .*unknown name: "word"'),
        (Grammar(GrammarKind.LARK), "the lark cannot be used: Empty grammar"),
    ],
)
def test_a_grammar_that_cannot_be_used_is_told_in_one_line(
    compiler: GrammarCompiler, grammar: Grammar, sentence: str
) -> None:
    with pytest.raises(GrammarError) as told:
        compiler.matcher(grammar)
    assert re.match(sentence.replace("[", r"\["), str(told.value))
    assert "\n" not in str(told.value)


def test_a_model_without_a_tokenizer_file_cannot_be_constrained(tmp_path: Path) -> None:
    with pytest.raises(GrammarError, match=r"cannot be constrained: .*tokenizer.json"):
        GrammarCompiler(tmp_path, 100, [0])


def test_the_white_space_of_json_is_bounded(compiler: GrammarCompiler) -> None:
    matcher = compiler.matcher(Grammar(GrammarKind.JSON_OBJECT), b"{" + b"\n" * 64)
    assert ord("\n") not in ids_of(matcher.mask())


def test_a_step_gets_its_masks_in_the_order_of_its_rows(compiler: GrammarCompiler, worker: MaskWorker) -> None:
    first, second = compiler.matcher(regex("ab")), compiler.matcher(regex("x"))
    masks: Mask = worker.submit([(first, [ord("a")]), (None, [1, 2]), (second, [])]).result()
    assert [len(ids_of(mask)) for mask in masks[2:5]] == [len(masks[0]) * 32] * 3
    assert [ids_of(mask) for mask in masks[[0, 1, 5]]] == [[ord("a")], [ord("b")], [ord("x")]]


@pytest.mark.parametrize("draft", [b"", b"xxxx"])
def test_an_output_that_becomes_too_complex_to_follow_ends_and_hurts_no_other(
    compiler: GrammarCompiler, worker: MaskWorker, draft: bytes
) -> None:
    hard = compiler.matcher(Grammar(GrammarKind.LARK, "start: " + '"x"* ' * 20))
    easy = compiler.matcher(regex("a"))
    steps = 0
    while hard.failure is None:
        *masks, easy_mask = worker.submit([(hard, list(draft)), (easy, [])]).result()
        assert ids_of(easy_mask) == [ord("a")]
        # What a model does that would always say x.
        for mask in masks:
            hard.advance(ord("x") if ord("x") in ids_of(mask) else TURN_END)
        steps += 1
    assert steps > 1
    assert "Current row has 20" in hard.failure
    assert hard.stopped
    assert ids_of(hard.mask()) == [END_OF_TEXT, TURN_END]


@pytest.mark.model
@pytest.mark.timeout(600)
def test_random_tokens_of_the_demo_model_follow_a_schema(demo_model: Path) -> None:
    compiler = GrammarCompiler(demo_model, 49152, [2])
    tokens: dict[str, int] = json.loads((demo_model / "tokenizer.json").read_bytes())["model"]["vocab"]
    assert tokens["ing"] in ids_of(compiler.matcher(regex(".*ing")).mask())
    tokenizer = Tokenizer.from_file(str(demo_model / "tokenizer.json"))
    # Most tokens that may come between two words of JSON are runs of white space: left to chance, nothing else would.
    white = {token for text, token in tokens.items() if not set(text) - set("ĠĊĉč")}
    random, finished = Random(0), 0
    for _ in range(40):
        matcher = compiler.matcher(schema(PERSON))
        output: list[int] = []
        while not matcher.stopped and len(output) < 100:
            allowed = ids_of(matcher.mask())
            output.append(random.choice([token for token in allowed if token not in white] or allowed))
            matcher.advance(output[-1])
        if matcher.stopped:
            assert is_person(tokenizer.decode(output))
            finished += 1
    assert finished > 10
