"""As much of a GitHub runner as this repository's own files need: expressions, step files, composite actions.

Shell steps are really run, by bash with the flags that GitHub gives it. Actions of others are not: a checkout puts
nothing new there, an upload is remembered and gets a URL. What an expression here cannot be is an error.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
ARTIFACT_URL = "https://artifacts.invalid/1"
Contexts = dict[str, Any]


def load(path: str) -> dict[str, Any]:
    """A YAML file of this repository."""
    loaded: dict[str, Any] = YAML(typ="safe").load((ROOT / path).read_text(encoding="utf-8"))
    return loaded


def evaluated(text: str, contexts: Contexts) -> Any:
    """An expression's value: `||` of `&&` of comparisons of literals, lookups and status functions."""
    for operator, stop in (("||", True), ("&&", False)):
        parts = text.split(f" {operator} ")
        if len(parts) > 1:
            value: Any = None
            for part in parts:
                value = evaluated(part, contexts)
                if bool(value) is stop:
                    break
            return value
    for operator, same in (("==", True), ("!=", False)):
        left, found, right = text.partition(f" {operator} ")
        if found:
            return (evaluated(left, contexts) == evaluated(right, contexts)) is same
    return _term(text.strip(), contexts)


def _term(text: str, contexts: Contexts) -> Any:
    if text in ("true", "false", "always()"):
        return text != "false"
    if match := re.fullmatch(r"'([^']*)'", text):
        return match[1]
    if re.fullmatch(r"[a-z_]+(\.[\w-]+)+", text) is None:
        raise AssertionError(f"this runner cannot read the expression {text!r}")
    value: Any = contexts
    for name in text.split("."):
        value = value.get(name, "") if isinstance(value, Mapping) else ""
    return value


def filled(text: Any, contexts: Contexts) -> str:
    """`text` with each `${{ expression }}` replaced by its value, as GitHub writes values."""

    def shown(match: re.Match[str]) -> str:
        value = evaluated(match[1], contexts)
        return str(value).lower() if isinstance(value, bool) else str(value)

    return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", shown, str(text))


@dataclass(slots=True)
class Job:
    """One job on a machine whose workspace is `workspace`; `env` is what its steps find beside their own."""

    workspace: Path
    temp: Path
    env: dict[str, str]
    log: str = ""
    page: str = ""
    uploads: dict[str, Path] = field(default_factory=dict)
    failed: bool = False
    _count: int = 0

    def run(self, steps: list[dict[str, Any]], contexts: Contexts) -> None:
        """Run `steps` as GitHub does: after a failure only those that are for it."""
        contexts.setdefault("steps", {})
        contexts["runner"] = {"temp": str(self.temp)}
        for step in steps:
            condition = str(step.get("if", ""))
            wanted = "always()" in condition or not self.failed
            if wanted and (not condition or evaluated(condition, contexts)):
                self._step(step, contexts)

    def _step(self, step: dict[str, Any], contexts: Contexts) -> None:
        outputs = self._used(step, contexts) if "uses" in step else self._shell(step, contexts)
        if "id" in step:
            contexts["steps"][step["id"]] = {"outputs": outputs}

    def _used(self, step: dict[str, Any], contexts: Contexts) -> dict[str, str]:
        given = {name: filled(value, contexts) for name, value in step.get("with", {}).items()}
        if step["uses"].startswith("./"):
            return self.composite(step["uses"].removeprefix("./"), given, contexts)
        if step["uses"].startswith("actions/upload-artifact@"):
            self.uploads[given["name"]] = Path(given["path"])
            return {"artifact-url": ARTIFACT_URL}
        assert step["uses"].startswith(("actions/checkout@", "actions/download-artifact@", "actions/setup-python@"))
        return {}

    def composite(self, folder: str, given: Mapping[str, str], contexts: Contexts) -> dict[str, str]:
        """Run the composite action in `folder` of this repository; its outputs."""
        action = load(f"{folder}/action.yml")
        assert given.keys() <= action["inputs"].keys(), "an input that the action does not have"
        github = {**contexts.get("github", {}), "action_path": str(ROOT / folder)}
        inputs = {name: filled(about.get("default", ""), contexts) for name, about in action["inputs"].items()}
        inner: Contexts = {"github": github, "inputs": {**inputs, **given}}
        self.run(action["runs"]["steps"], inner)
        return {name: filled(about["value"], inner) for name, about in action["outputs"].items()}

    def _shell(self, step: dict[str, Any], contexts: Contexts) -> dict[str, str]:
        self._count += 1
        folder = self.temp / f"_step{self._count}"
        folder.mkdir(parents=True)
        script = folder / "script.sh"
        script.write_text(filled(step["run"], contexts), encoding="utf-8")
        files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
        for file in files.values():
            file.touch()
        env = {
            **os.environ,
            **self.env,
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_ACTION_PATH": str(contexts.get("github", {}).get("action_path", "")),
            **{name: str(file) for name, file in files.items()},
            **{name: filled(value, contexts) for name, value in step.get("env", {}).items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(
            command, cwd=self.workspace, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        self.log += done.stdout + done.stderr
        self.page += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        self.failed = self.failed or done.returncode != 0
        pairs = (line.partition("=") for line in files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines())
        return {name: value for name, _, value in pairs}
