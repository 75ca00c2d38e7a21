"""What annotated parameters of functions are given: dataclasses and models, built from params."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from raftsched.client.encoding import encode
from raftsched.run import Fail
from raftsched.worker.executors.parameters import builder_of

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]

pydantic = pytest.importorskip("pydantic")


@dataclass
class Line:
    text: str
    count: int = 1


@dataclass
class Invoice:
    number: int
    due: datetime | None = None
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("number is negative")


@dataclass
class Letter:
    first: Line | None = None
    by_name: dict[str, list[Line]] = field(default_factory=dict)
    pair: tuple[Line, int] | None = None
    more: Letter | None = None


@dataclass
class Unread:
    number: Unknown


class Model:
    """Stands for pydantic's: it has the methods that are used, and nothing else."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if not isinstance(value, dict) or value.keys() != {"number"}:
            raise ValueError("it has a number")
        return cls(value["number"])

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"number": self.number}


class Order(pydantic.BaseModel):  # type: ignore[misc]
    number: int
    placed: datetime


class Point(msgspec.Struct):
    x: int


def plain(number: int, names: list[str], more: dict[str, Any], **rest: Any) -> None: ...


def unresolved(one: Unknown, two: Invoice) -> None: ...


def unread(one: Unread) -> None: ...


def letter(letter: Letter) -> Letter:
    return letter


def maybe(invoice: Invoice | None = None) -> Invoice | None:
    return invoice


def either(one: Invoice | Line) -> None: ...


def one(invoice: Invoice) -> Invoice:
    return invoice


def two(invoice: Invoice, copy: bool = False) -> Any:
    return invoice, copy


def many(invoices: list[Invoice], point: Point | None = None) -> Any:
    return invoices, point


def of_model(model: Model) -> int:
    return model.number


def of_order(order: Order) -> Any:
    return order


def call(function: Callable[..., Any], params: dict[str, Any]) -> Any:
    build = builder_of(function)
    assert build is not None
    return function(**build(params))


@pytest.mark.parametrize("function", [plain, unresolved, unread, either, print, asyncio.run])
def test_others_are_called_with_params_as_they_are(function: Callable[..., Any]) -> None:
    assert builder_of(function) is None


def test_dataclasses() -> None:
    whole = Invoice(7, datetime(2027, 1, 1, tzinfo=UTC), [Line("a"), Line("b", 2)])
    params = msgspec.json.decode(encode(whole))
    assert call(one, {"invoice": params}) == whole
    assert call(one, params) == whole, "its only parameter takes all params"
    assert call(maybe, {"invoice": None}) is None
    assert call(letter, {"letter": {"more": {"first": None, "pair": [{"text": "a"}, 2]}}}) == Letter(
        more=Letter(pair=(Line("a"), 2))
    )
    assert call(two, {"invoice": {"number": 7}, "copy": True}) == (Invoice(7), True)
    assert call(many, {"invoices": [params], "point": {"x": 1}}) == ([whole], Point(1))
    with pytest.raises(TypeError, match="number"):
        call(two, {"number": 7})


def test_models() -> None:
    assert call(of_model, msgspec.json.decode(encode(Model(7)))) == 7
    order = Order(number=7, placed=datetime(2027, 1, 1, tzinfo=UTC))
    assert call(of_order, {"order": msgspec.json.decode(encode(order))}) == order
    assert call(of_order, msgspec.json.decode(encode(order))) == order


@pytest.mark.parametrize(
    "function, params, said",
    [
        (one, {"invoice": {"number": "7"}}, "params do not fit one: invoice.number: Expected int, got str"),
        (one, {"invoice": {"number": 7, "nmber": 1}}, "invoice has nmber, and Invoice only number, due, lines"),
        (maybe, {"invoice": {"nmber": 1}}, "invoice has nmber, and Invoice only number, due, lines"),
        (
            many,
            {"invoices": [{"number": 1, "lines": [{"txt": 1}]}]},
            r"invoices\[0\].lines\[0\] has txt, and Line only",
        ),
        (letter, {"letter": {"lst": 1}}, "letter has lst, and Letter only first, by_name, pair, more"),
        (letter, {"letter": {"more": {"pair": [{"txt": 1}, 2]}}}, r"letter.more.pair\[0\] has txt, and Line only"),
        (letter, {"letter": {"by_name": {"a": [{"txt": 1}]}}}, r"letter.by_name\[a\]\[0\] has txt, and Line only"),
        (one, {"due": None}, "params: Object missing required field number"),
        (one, {"invoice": {"number": 1, "lines": [{}]}}, r"invoice.lines\[0\]: Object missing required field text"),
        (one, {"number": -1}, "params: number is negative"),
        (of_model, {"model": 7}, "model: it has a number"),
        (of_order, {"order": {"number": "x"}}, "order: number: .*; placed: Field required"),
    ],
)
def test_params_that_do_not_fit_end_the_run_for_good(function: Callable[..., Any], params: Any, said: str) -> None:
    with pytest.raises(Fail, match=said) as caught:
        call(function, params)
    assert "\n" not in str(caught.value)
