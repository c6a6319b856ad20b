"""Jinja2 as transformers configures it, and what it makes of a template."""
import datetime
import json

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

NOW = 1722000000  # 2024-07-26, the date that the cases expect of strftime_now


class Generation(Extension):
    """{% generation %} of transformers: its body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(lineno)

    def _body(self, caller):
        return caller()


def environment(mutable):
    base = SandboxedEnvironment if mutable else ImmutableSandboxedEnvironment
    env = base(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def strftime_now(fmt):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(fmt)

    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


STRICT, MUTABLE = environment(False), environment(True)


COMPILED = {}


def expected(env, source, variables):
    """('text', ...) or ('error', ...)"""
    try:
        if (env, source) not in COMPILED:
            if len(COMPILED) > 8:
                COMPILED.clear()
            COMPILED[env, source] = env.from_string(source)
        values = {"tools": None, "documents": None, "add_generation_prompt": False, "messages": [], **variables}
        text = COMPILED[env, source].render(**json.loads(json.dumps(values)))
        text.encode()
        return "text", text
    except Exception as e:  # whatever Python raises is a refusal
        return "error", f"{type(e).__name__}: {e}"
