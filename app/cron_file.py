"""A file of cron jobs kept in a repository: YAML in, definitions out, by the API's own model and rules."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from app.api.callback import job_template
from app.api.reading import KEPT, validated
from app.api.schemas_cron import CronJobCreation
from app.api.strict_json import NotStrictJson
from app.api.strict_json import parse as parse_json
from app.callback_url import CallbackUrlRefused, Target, parse
from app.config import Network
from app.cron_entries import Definition, read_schedule
from app.cron_entries.definition import check_bounds
from app.errors import InvalidRequest, invalid

QUOTE_HINT = (
    'Put cron expressions in quotes: a bare * means something else in YAML, as in cron_expression: "*/5 * * * *".'
)


class CronFileRefused(ValueError):
    """A file that cannot be applied; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class CronFile:
    """What a file holds. `client` is the name it gives, if any."""

    client: str | None
    definitions: tuple[Definition, ...]


def read_cron_file(text: str, allowed: tuple[Network, ...], most_bytes: int) -> CronFile:
    """The file's definitions, in its order, each with a name of its own. Raises CronFileRefused.

    The callback's host is not resolved: a file is often applied where it cannot be. The delivery looks at every address.
    """
    held = _load(text)
    if (
        not isinstance(held, dict)
        or not isinstance(held.get("cron_jobs"), list)
        or held.keys() - {"client", "cron_jobs"}
    ):
        raise CronFileRefused("The file holds `cron_jobs:`, a list, and perhaps `client:`, a name; nothing else.")
    client = held.get("client")
    if client is not None and not isinstance(client, str):
        raise CronFileRefused("client: it must be a name.")
    definitions: dict[str, Definition] = {}
    for number, item in enumerate(held["cron_jobs"], 1):
        definition = _definition(number, item, allowed, most_bytes)
        if definition.name in definitions:
            raise CronFileRefused(f"{definition.name}: two cron jobs of the file have this name.")
        definitions[definition.name or ""] = definition
    return CronFile(client, tuple(definitions.values()))


def _definition(number: int, item: Any, allowed: tuple[Network, ...], most_bytes: int) -> Definition:
    where = f"cron job {number}"
    if not isinstance(item, dict):
        raise CronFileRefused(f"{where}: it must hold fields such as name and cron_expression.")
    if isinstance(item.get("name"), str) and item["name"]:
        where = item["name"]
    try:
        body = json.dumps(item, ensure_ascii=False, allow_nan=False).encode()
        if len(body) > most_bytes:
            raise CronFileRefused(f"{where}: it is larger than {most_bytes:,} bytes, the most that is taken.")
        return _checked(validated(CronJobCreation, parse_json(body, KEPT)), allowed)
    except InvalidRequest as error:
        raise CronFileRefused(f"{where}: {error.message}") from None
    except (NotStrictJson, TypeError, ValueError) as error:
        raise CronFileRefused(f"{where}: {str(error).removeprefix('The body ')}") from None


def _checked(body: CronJobCreation, allowed: tuple[Network, ...]) -> Definition:
    if body.name is None:
        raise ValueError("name is required: it is what tells the cron jobs of a file apart.")
    read_schedule(body.cron_expression, body.timezone)
    check_bounds(body.starts_at, body.ends_at)

    def locate(url: str, field: str) -> Target:
        try:
            return parse(url, allowed)
        except CallbackUrlRefused as error:
            raise invalid(field, str(error)) from None

    template = job_template(body.job_template, locate)
    given = body.model_dump(exclude={"cron_expression", "job_template"})
    return Definition(expression=body.cron_expression, template=template, **given)


class _Loader(yaml.SafeLoader):
    """YAML's plain values as JSON has them: no dates, no yes and no, no 010, no 12:30 as a number; no key twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (the library's own name)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        made = super().construct_mapping(node, deep)
        keys = [str(key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        for key in keys:
            if keys.count(key) > 1:
                mark = node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given more than once", mark)
        return made


for _tag, _pattern, _first in (
    ("null", r"~|null|", ("~", "n", "")),
    ("bool", r"true|false", ("t", "f")),
    ("int", r"-?(?:0|[1-9][0-9]*)", tuple("-0123456789")),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", tuple("-0123456789")),
    ("merge", r"<<", ("<",)),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first))


def _load(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        hint = f" {QUOTE_HINT}" if "alias" in f"{error.context} {error.problem}" else ""
        raise CronFileRefused(f"This is not YAML that can be read: {error.problem}{where}.{hint}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CronFileRefused(f"This is not YAML that can be read: {str(error).splitlines()[0]}.") from None
