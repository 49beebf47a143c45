"""Faults that a client meets at the API."""

from __future__ import annotations

import hashlib
import socket
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from stoker.watchdog.doctor.findings import Layer, Level
from tests.watchdog.doctor.faults import START_AGAIN, Fault, Sign, change, choose
from tests.watchdog.doctor.patient import GB, MODEL, TEMPLATE, Patient, make_model
from tests.watchdog.doctor.stand_in import listening, say

KEY = "a long and random key"


def own_address(patient: Patient) -> str:
    return patient.tree.status().service.url


def ask_at(address: Callable[[Patient], str]) -> Callable[[Patient], None]:
    """The doctor is given `--url`."""

    def plant(patient: Patient) -> None:
        patient.url = address(patient)

    return plant


def nowhere(patient: Patient) -> str:
    """A port that is taken, but where nobody listens."""
    closed = patient.others.enter_context(socket.socket())
    closed.bind(("127.0.0.1", 0))
    return f"http://127.0.0.1:{closed.getsockname()[1]}"


def another_program(patient: Patient) -> str:
    return patient.others.enter_context(listening(lambda handler, body: say(handler, "<html>hello</html>")))


def another_language(patient: Patient) -> str:
    """It lists models, as many servers do, and answers in a form of its own."""

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        say(handler, {"data": [{"id": "x"}]} if handler.path == "/v1/models" else {"response": "ready"})

    return patient.others.enter_context(listening(answer))


def proxy_that_cuts(patient: Patient) -> str:
    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        with urllib.request.urlopen(own_address(patient) + handler.path, body or None) as response:
            say(handler, response.read().decode().removesuffix("data: [DONE]\n\n"))

    return patient.others.enter_context(listening(answer))


GIVE_THE_RIGHT_ADDRESS = change("--url", ask_at(own_address))


def want_keys(patient: Patient) -> None:
    add_key(patient, KEY)
    patient.set("server.api_keys", str(patient.home / "keys"))
    patient.serve()


def add_key(patient: Patient, key: str) -> None:
    with (patient.home / "keys").open("a") as file:
        file.write(f"agent {hashlib.sha256(key.encode()).hexdigest()}\n")


def show_key(patient: Patient) -> None:
    patient.key = KEY


def want_other_keys(patient: Patient) -> None:
    want_keys(patient)
    patient.key = "another key"


def serve_a_model_without_tools(patient: Patient) -> None:
    make_model(patient.folder_of("example/chat"), GB, template=TEMPLATE.partition("{% endif %}")[2])
    patient.set("engine.model", "example/chat")
    patient.serve()


API = [
    Fault(
        "a port where nothing listens",
        Sign(Layer.API, "port", Level.FAILURE),
        plant=ask_at(nowhere),
        cure=(GIVE_THE_RIGHT_ADDRESS,),
    ),
    Fault(
        "the port of another program",
        Sign(Layer.API, "port", Level.FAILURE, "another program"),
        plant=ask_at(another_program),
        cure=(GIVE_THE_RIGHT_ADDRESS,),
    ),
    Fault(
        "an address with a path too many",
        Sign(Layer.API, "endpoint", Level.FAILURE),
        plant=ask_at(lambda patient: own_address(patient) + "/api"),
        cure=(change("without a path", ask_at(own_address)),),
    ),
    Fault(
        "a server that speaks another language",
        Sign(Layer.API, "format", Level.FAILURE),
        plant=ask_at(another_language),
        cure=(GIVE_THE_RIGHT_ADDRESS,),
    ),
    Fault(
        "a proxy that cuts streams",
        Sign(Layer.API, "streaming", Level.FAILURE),
        plant=ask_at(proxy_that_cuts),
        cure=(GIVE_THE_RIGHT_ADDRESS,),
    ),
    Fault(
        "no key",
        Sign(Layer.API, "key", Level.FAILURE),
        plant=want_keys,
        cure=(change("--key", show_key),),
    ),
    Fault(
        "a key that nobody knows",
        Sign(Layer.API, "key", Level.FAILURE),
        plant=want_other_keys,
        cure=(change("add its line to the file", lambda patient: add_key(patient, "another key")), START_AGAIN),
    ),
    Fault(
        "a model that knows no tools",
        Sign(Layer.API, "tool calls", Level.WARNING),
        plant=serve_a_model_without_tools,
        cure=(choose("engine.model", MODEL), START_AGAIN),
    ),
]
