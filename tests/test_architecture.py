"""The layout's rules (design.md section 10): who may import whom, who reads the environment, who writes what, and whose clock counts."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("app", "worker", "scheduler")
MODULES = sorted(path for name in PROGRAMS for path in (ROOT / name).rglob("*.py"))
LINES_AT_MOST = 300

# The one home of what a request may say, whoever makes it: the API, a form, a file of cron entries.
CONTRACT = (
    "app.api.callback",
    "app.api.reading",
    "app.api.schemas",
    "app.api.schemas_callback",
    "app.api.schemas_cron",
    "app.api.schemas_jobs",
    "app.api.schemas_queues",
    "app.api.schemas_trial",
    "app.api.strict_json",
)
PURE = (
    "app.attempts", "app.callback", "app.callback_url", "app.cron", "app.instants", "app.jobs.requests", "app.jobs.stats", "app.occurrences",
    "app.outcomes", "app.redis_keys", "app.request_text", "app.retry", "app.retry_policy", "app.signing", "app.special_networks",
)  # fmt: skip
STORES = ("flask", "psycopg", "redis", "requests", "sqlalchemy", "pycurl")
# What speaks to the stream and the set; `stream.py` is the only one who does.
STREAM_COMMANDS = re.compile(r"^(x[a-z]+|z(add|rem|range|card|score|mscore|pop|count|union|inter|diff)\w*)$")
HOST_CLOCK = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("time", "time"), ("time", "time_ns")}
# Ids are only ordered by it, the doctor compares it; the other two decide nothing about a job.
MAY_READ_HOST_CLOCK = {"app/doctor.py", "app/ids.py", "app/demo_receiver.py", "app/embedded_redis.py"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    return relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> frozenset[str]:
    """What a module imports, with the names it takes: `from app import jobs` is `app.jobs`."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def is_under(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def importing(under: tuple[str, ...], forbidden: tuple[str, ...], but: tuple[str, ...] = ()) -> list[str]:
    """Modules below `under` that import something below `forbidden`."""
    return [
        f"{relative(path)} imports {name}"
        for path in MODULES
        if is_under(module_name(path), *under) and module_name(path) not in but
        for name in sorted(imports(path))
        if is_under(name, *forbidden)
    ]


@cache
def attributes(path: Path) -> frozenset[tuple[str, str]]:
    """Each `name.attribute`; for longer chains the last two parts."""
    chains = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute))
    return frozenset(
        (node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", ""), node.attr)
        for node in chains
    )


@cache
def sql(path: Path) -> str:
    """All text constants of a module, docstrings left out."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return "\n".join(
        node.value
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    )


# Who may import whom


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 60
    assert {name for name in PURE if not (ROOT / name.replace(".", "/")).with_suffix(".py").exists()} == {"app.cron"}


def test_pure_modules_import_pure_ones_and_no_store() -> None:
    assert importing(PURE, STORES) == []
    ours = importing(PURE, PROGRAMS)
    assert [line for line in ours if not is_under(line.split(" imports ")[1], *PURE, "app.version")] == []


def test_pages_and_api_do_not_know_each_other() -> None:
    assert importing(("app.api",), ("app.dashboard",)) == []
    assert _beyond_the_contract(importing(("app.dashboard",), ("app.api",))) == []


def test_the_core_knows_neither_pages_nor_api() -> None:
    knowing = _beyond_the_contract(importing(("app",), ("app.api", "app.dashboard"), but=("app.web",)))
    assert [line for line in knowing if not line.startswith(("app/api/", "app/dashboard/"))] == []


def _beyond_the_contract(lines: list[str]) -> list[str]:
    """Leaves out imports of what says which requests are sound: pages and command line ask the same question (CONTRACT)."""
    return [line for line in lines if not is_under(line.split(" imports ")[1], *CONTRACT)]


def test_the_three_programs_do_not_know_each_other() -> None:
    assert importing(("app",), ("worker", "scheduler")) == []
    assert importing(("worker",), ("scheduler", "app.api", "app.dashboard", "app.web", "flask")) == []
    assert importing(("scheduler",), ("worker", "app.api", "app.dashboard", "app.web", "flask")) == []


def test_only_what_sends_callbacks_knows_libcurl() -> None:
    assert importing(PROGRAMS, ("pycurl",))
    sending = ("app/callbacks/", "worker/")
    assert [line for line in importing(PROGRAMS, ("pycurl",)) if not line.startswith(sending)] == []
    assert importing(("app.callbacks",), ("flask", "psycopg", "redis", "sqlalchemy", "gevent")) == []
    assert importing(("app.callbacks",), ("app.api", "app.dashboard", "app.database", "app.jobs", "app.models")) == []
    assert importing(("scheduler",), ("app.callbacks",)) == []


def test_the_product_does_not_know_its_tests() -> None:
    assert importing(PROGRAMS, ("tests", "pytest", "hypothesis", "time_machine")) == []


# Who does what


def test_only_config_reads_the_environment() -> None:
    readers = [
        relative(path)
        for path in MODULES
        if {("os", "environ"), ("os", "getenv"), ("os", "environb")} & attributes(path)
        or {"os.environ", "os.getenv"} & imports(path)
    ]
    assert readers == ["app/config.py"]


WRITES_A_STATUS = re.compile(r"\b(UPDATE|INSERT\s+INTO|MERGE\s+INTO|COPY)\s+jobs\b", re.IGNORECASE)
# Jobs that never ran, with the past they would have: no change of a status there is, and only in the database of `make demo`.
MAKES_JOBS_UP = "app/demo_data/writing.py"


def test_only_app_jobs_writes_a_jobs_status() -> None:
    writers = [relative(path) for path in MODULES if WRITES_A_STATUS.search(sql(path))]
    assert [path for path in writers if not path.startswith("app/jobs/")] == [MAKES_JOBS_UP]
    for path in MODULES:
        if not relative(path).startswith("app/jobs/"):
            assert not re.search(r"\b(update|insert)\((models\.)?Job\)", path.read_text()), relative(path)


def test_only_stream_talks_to_the_stream_and_the_set() -> None:
    talking = {relative(path) for path in MODULES for _, name in attributes(path) if STREAM_COMMANDS.match(name)}
    assert talking == {"app/stream/stream.py", "app/stream/watch.py"}
    scripts = [
        path.name for path in (ROOT / "app" / "lua").glob("*.lua") if re.search(r"'(X|Z)[A-Z]+'", path.read_text())
    ]
    assert sorted(scripts) == ["add.lua", "finish.lua", "promote.lua", "queues.lua", "release.lua", "set_limits.lua"]


def test_key_names_are_built_in_one_place() -> None:
    built = re.compile(r"base\}(ready|scheduled|epoch|bad|waiting|slots|turns)\b")
    assert [relative(path) for path in MODULES if built.search(path.read_text())] == ["app/redis_keys.py"]


def test_connections_are_opened_in_one_place() -> None:
    """C8: each transaction is bounded, because nobody opens one by hand."""
    opened = [
        relative(path)
        for path in MODULES
        if any(pair[0] in ("engine", "_engine", "db") and pair[1] in ("begin", "connect") for pair in attributes(path))
    ]
    assert opened == ["app/database.py"]


# Whose clock counts (C1)


def test_the_hosts_clock_decides_nothing() -> None:
    readers = {relative(path) for path in MODULES if HOST_CLOCK & attributes(path)}
    assert readers <= MAY_READ_HOST_CLOCK


def test_sql_asks_one_function_for_the_time() -> None:
    asking = re.compile(
        r"clock_timestamp|statement_timestamp|transaction_timestamp|current_timestamp|localtimestamp|current_date|(?<!punctual_)\bnow\(\)",
        re.IGNORECASE,
    )
    assert [relative(path) for path in MODULES if asking.search(sql(path))] == []


def test_no_part_of_the_product_can_shift_the_time() -> None:
    defining = re.compile(r"FUNCTION\s+punctual_now", re.IGNORECASE)
    places = [*MODULES, *(ROOT / "migrations").rglob("*.py")]
    assert [relative(path) for path in places if defining.search(sql(path))] == ["migrations/versions/0001_initial.py"]


def test_no_session_holds_a_state() -> None:
    """C8: PgBouncer hands each statement to another session. `set_config(…, true)` is the transaction's."""
    state = re.compile(
        r"\bLISTEN\s+\w|pg_advisory_lock|\bSET\s+SESSION\b|\bPREPARE\s+\w|, false\)|WITH\s+HOLD", re.IGNORECASE
    )
    assert [relative(path) for path in MODULES if state.search(sql(path))] == []


# How it reads


@pytest.mark.parametrize("folder", [*PROGRAMS, "tests", "migrations"])
def test_every_module_says_what_it_owns(folder: str) -> None:
    silent = [path for path in (ROOT / folder).rglob("*.py") if not ast.get_docstring(tree(path))]
    assert [relative(path) for path in silent] == []


def test_no_file_is_too_long() -> None:
    files = [*MODULES, *(ROOT / "app").rglob("*.lua"), *(ROOT / "templates").rglob("*.html")]
    files += [
        path for kind in ("js", "css") for path in (ROOT / "static").rglob(f"*.{kind}") if "vendor" not in path.parts
    ]
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {path: lines for path, lines in lengths.items() if lines > LINES_AT_MOST} == {}


def test_no_name_says_nothing() -> None:
    empty = {"utils", "common", "helpers", "base", "manager", "service", "misc"}
    assert [relative(path) for path in MODULES if path.stem in empty] == []


def test_every_lua_script_says_what_it_takes_and_returns() -> None:
    for script in (ROOT / "app" / "lua").glob("*.lua"):
        header = "".join(line for line in script.read_text().splitlines() if line.startswith("--"))
        assert "KEYS 1" in header and "ARGV 1" in header and "Returns" in header, script.name
