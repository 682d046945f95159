"""The API's documentation as a self-contained page."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import Any

_Schema = dict[str, Any]  # of OpenAPI, which has no types of its own


def docs_page(schema: _Schema) -> str:
    """Return the HTML of an OpenAPI schema: each route with its parameters."""
    routes = [
        _route(path, method, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    ]
    template = Template(files(__package__).joinpath("docs.html").read_text(encoding="utf-8"))
    return template.substitute(version=escape(schema["info"]["version"]), routes="\n".join(routes))


def _route(path: str, method: str, operation: _Schema) -> str:
    rows = "".join(_parameter(parameter) for parameter in operation.get("parameters", []))
    if "requestBody" in operation:
        types = ", ".join(operation["requestBody"]["content"])
        rows += f"<tr><td><code>image</code></td><td>body</td><td>the file as {escape(types)}</td></tr>"
    table = f"<table>{rows}</table>" if rows else ""
    description = escape(operation.get("description", ""))
    return f"<section><h2><b>{method.upper()}</b> {escape(path)}</h2><p>{description}</p>{table}</section>"


def _parameter(parameter: _Schema) -> str:
    schema = parameter["schema"]
    names = {
        "minimum": "from {}",
        "maximum": "to {}",
        "maxLength": "at most {} characters",
        "default": "default {}",
    }
    facts = [parameter["description"]] if "description" in parameter else []
    facts += [text.format(schema[key]) for key, text in names.items() if key in schema]
    cells = (f"<code>{escape(parameter['name'])}</code>", parameter["in"], escape(", ".join(facts)))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
