"""Options: three ways to name a server, and no secret in anything that is shown."""

from pathlib import Path
from typing import Any

import pytest

from kvstress.core.errors import UsageError
from kvstress.harness.options import RunOptions, shown_command, shown_launch, shown_url


def test_naming_no_server_says_the_three_ways() -> None:
    with pytest.raises(UsageError, match=r"no server named.*--server URL.*--launch.*--server reference"):
        RunOptions(workload="speedbench")


def test_naming_two_servers_is_refused() -> None:
    with pytest.raises(UsageError, match="both --server and --launch"):
        RunOptions(workload="w", server="http://x", launch="y {port}")


def test_resume_needs_to_know_what() -> None:
    with pytest.raises(UsageError, match="--resume needs --out"):
        RunOptions(workload="w", server="http://x", resume=True)


def test_the_reference_server_takes_its_own_arguments() -> None:
    assert RunOptions(workload="w", server="reference").reference_args == []
    options = RunOptions(workload="w", server="reference --memory-limit 50G")
    assert options.reference_args == ["--memory-limit", "50G"]
    assert RunOptions(workload="w", server="http://reference:1").reference_args is None


SECRET = "sk-very-secret"


def test_no_secret_is_in_the_shown_command_or_in_repr() -> None:
    options = RunOptions(
        workload="w",
        server=f"https://user:{SECRET}@host:1/v1?key={SECRET}",
        headers={"Authorization": f"Bearer {SECRET}"},
        api_key_env="KEY",
        ca_file=Path("ca.pem"),
    )
    assert SECRET not in shown_command(options) + repr(options) + shown_url(options.server or "")
    assert "Authorization: ***" in shown_command(options)
    assert "--api-key-env KEY" in shown_command(options)


@pytest.mark.parametrize(
    "command",
    [
        f"serve --api-key {SECRET} --port {{port}}",
        f"serve --api-key={SECRET}",
        f"env HF_TOKEN={SECRET} serve {{port}}",
        f"serve -H 'Authorization: Bearer {SECRET}'",
        f"serve --header 'X-Api-Key: {SECRET}'",
        f"serve --upstream https://user:{SECRET}@host/v1",
    ],
)
def test_a_launch_command_is_shown_without_its_secrets(command: str) -> None:
    assert SECRET not in shown_launch(command)
    assert "serve" in shown_launch(command)


def test_what_is_only_named_alike_is_no_secret_and_the_command_can_be_repeated() -> None:
    command = "serve {port} --max-num-batched-tokens 8192 --tokenizer /m/tok --kv-cache-dtype fp8 --key-file /etc/k.pem"
    assert shown_launch(command) == command


@pytest.mark.parametrize("name", ["timeout", "ready_timeout", "scrape_interval", "time_scale"])
def test_a_time_of_nothing_is_refused(name: str) -> None:
    span: dict[str, Any] = {name: 0.0}
    with pytest.raises(UsageError, match="must be above 0"):
        RunOptions(workload="w", server="http://x", **span)


def test_an_open_quotation_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="no closing quotation"):
        _ = RunOptions(workload="w", server="reference 'x").reference_args
