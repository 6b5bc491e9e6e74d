#!/usr/bin/env python3
"""Sends a few requests to an OpenAI-compatible server and says whether a failure is still there.

    python3 repro.py http://127.0.0.1:8000

Start the server afresh first: what it answered before is part of its state. Needs Python 3.9 and nothing else.
Exit code: 1 the failure is there, 0 it is gone, 125 it cannot be told. Written by kvstress.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import http.client
import json
import os
import re
import ssl
import sys
import time
import urllib.parse
from typing import Any

CASE: dict[str, Any] = {}

VERBS = ("swap", "keep", "move", "push")
VOLATILE = (
    (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
    (r"\b(?:0x)?(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{12,}\b", "<id>"),
    (r"\b(?:chatcmpl|cmpl|req|resp)-[\w-]+", "<id>"),
    (r"\d{4,}(?:\.\d+)?", "#"),
    (r"\d+\.\d+", "#"),
)
GONE = ("connection-refused", "connect-failed")
BROKEN = ("reset", "no-response", "short-body", "truncated-chunk", "protocol", "malformed")
WIRE = ("STATUS", "STREAM", "LIVENESS", "SURVIVAL", "BLAST")


def prompt(one: dict[str, Any]) -> str:
    """A text: as it was, or generated. Low-entropy filler, of which only the length matters."""
    if one.get("words") is not None:
        return str(one["words"])
    units = int(one["units"])
    calls = -(-units // 6)
    drawn = [byte % 10 for byte in hashlib.shake_256(one["key"].encode()).digest(2 * calls)]
    parts: list[str] = []
    for call in range(calls):
        end = ");\n" if call % 4 == 3 else "); "
        parts += [VERBS[call % 4], "(", str(drawn[2 * call]), ",", str(drawn[2 * call + 1]), end]
    program = "".join(parts[:units])
    return f"{one['mark']}: calls that sort ten items\n{program}\nWhich call comes next? Answer with the calls only."


def filled(value: Any, texts: dict[str, str]) -> Any:
    """A body with its texts in place."""
    if isinstance(value, dict):
        if set(value) == {"$text"}:
            return texts[value["$text"]]
        return {key: filled(item, texts) for key, item in value.items()}
    return [filled(item, texts) for item in value] if isinstance(value, list) else value


class Server:
    """Where the requests go."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        self.parts = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self.timeout = timeout

    def ask(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> tuple[int, str, bytes]:
        """Status, content type and body; raises what the connection raises."""
        host, port, wait = self.parts.hostname or "", self.parts.port, self.timeout if timeout is None else timeout
        if self.parts.scheme == "https":
            secure = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=wait, context=secure
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=wait)
        try:
            path = self.parts.path.rstrip("/").removesuffix("/v1") + path
            connection.request(method, path, None if body is None else json.dumps(body), self.headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type") or "", answer.read()
        finally:
            connection.close()


def send(server: Server, request: dict[str, Any], texts: dict[str, str]) -> tuple[str, int | None, str, Any]:
    """Send one request: what became of it (as kvstress calls it), status, the server's words, the answers."""
    wait = (request.get("cancel") or {}).get("after")
    try:
        status, kind, raw = server.ask("POST", request["endpoint"], filled(request["body"], texts), wait)
    except ConnectionRefusedError as why:
        return "connection-refused", None, str(why), None
    except TimeoutError:
        return "cancelled" if wait else "deadline", None, "", None
    except http.client.IncompleteRead as why:
        return ("stream-error" if b'"error"' in why.partial else "short-body"), 200, words(why.partial), None
    except http.client.RemoteDisconnected as why:
        return "no-response", None, str(why), None
    except (OSError, http.client.HTTPException) as why:
        return "reset", None, str(why), None
    if status != 200:
        return ("server-error" if status >= 500 else "client-error"), status, words(raw), None
    return streamed(raw) if "event-stream" in kind else whole(raw)


def whole(raw: bytes) -> tuple[str, int | None, str, Any]:
    """An answer in one body."""
    try:
        answer = json.loads(raw, parse_constant=float)
    except ValueError as why:
        return "malformed", 200, f"{why}: {raw[:200]!r}", None
    if not isinstance(answer, dict) or answer.get("error"):
        return "error-envelope", 200, words(raw), None
    return ended(answer.get("choices") or []) or "ok", 200, "", [answer]


def ended(choices: list[dict[str, Any]]) -> str | None:
    """What is wrong with the ends of the choices; None when each has a proper one."""
    reasons = [choice.get("finish_reason") for choice in choices]
    if any(reason in ("error", "abort") for reason in reasons):
        return "stream-error"
    return None if reasons and all(reasons) else "missing-finish-reason"


def streamed(raw: bytes) -> tuple[str, int | None, str, Any]:
    """An answer in server-sent events."""
    answers, done, finished = [], False, set()
    named = re.search(rb"(?m)^(?:event: error|error:)(.*)$", raw)
    for line in raw.decode("utf-8", "replace").splitlines():
        data = line[5:].strip() if line.startswith("data:") else ""
        if data == "[DONE]":
            done = True
        elif data:
            try:
                chunk = json.loads(data)
            except ValueError as why:
                return "malformed", 200, str(why), None
            if chunk.get("error"):
                return "stream-error", 200, words(data.encode()), None
            answers.append(chunk)
            for choice in chunk.get("choices") or []:
                if choice.get("finish_reason") in ("error", "abort"):
                    return "stream-error", 200, str(choice["finish_reason"]), None
                finished |= {choice.get("index", 0)} if choice.get("finish_reason") else set()
    if named:
        return "stream-error", 200, words(named[1].strip()), None
    if not finished:
        return "missing-finish-reason", 200, "", answers
    if not done and CASE["sends_done"] is not False:
        return "missing-done", 200, "", answers
    return "ok", 200, "", answers


def words(raw: bytes) -> str:
    """The server's own words in an error."""
    try:
        found = json.loads(raw)
    except ValueError:
        return " ".join(raw.decode("utf-8", "replace").split())[:2000]
    for _ in range(8):
        if not isinstance(found, dict):
            break
        found = next((found[key] for key in ("message", "error", "detail", "msg") if found.get(key)), str(found))
    return str(found)[:2000]


def identity(said: str) -> str:
    """The words without what changes from request to request."""
    for pattern, placeholder in VOLATILE:
        said = re.sub(pattern, placeholder, said)
    return " ".join(said.split())[:160]


def faults(answers: Any, body: dict[str, Any]) -> dict[str, str]:
    """What is wrong with a whole answer, by the name that kvstress gives it."""
    found: dict[str, str] = {}
    usage = next((one["usage"] for one in reversed(answers or []) if one.get("usage")), None) or {}
    asked, made, total = (usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total"))
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if asked is not None and made is not None and total is not None and asked + made != total:
        found["USAGE:total"] = f"{asked} prompt + {made} completion tokens are not {total}"
    if cached is not None and asked is not None and cached > asked:
        found["USAGE:cached"] = f"{cached} cached of {asked} prompt tokens"
    most = body.get("max_tokens")
    if made is not None and most is not None and made > most * body.get("n", 1) + 1:
        found["USAGE:over max_tokens"] = f"{made} tokens where {most} were allowed"
    said = [choice.get(key) or {} for one in answers or [] for choice in one.get("choices", []) for key in SAYS]
    text = "".join(str(one.get(key) or "") for one in said for key in SPOKEN)
    text += "".join(str(choice.get("text") or "") for one in answers or [] for choice in one.get("choices", []))
    if not text and made is not None and made >= 8:
        found["EMPTY:nothing said"] = f"{made} tokens were counted and none was sent"
    if re.search(r'"logprob": (NaN|-?Infinity)', json.dumps(answers)):
        found["LOGPROB:no number"] = found["LOGPROB:chosen"] = "a log-probability is no number"
    return found


SAYS = ("message", "delta")
SPOKEN = ("content", "reasoning", "reasoning_content", "tool_calls", "function_call")
JUDGED = ("USAGE:total", "USAGE:cached", "USAGE:over max_tokens", "EMPTY:nothing said", "LOGPROB:no number")


def verdict(request: dict[str, Any], result: tuple[str, int | None, str, Any]) -> tuple[str | None, str]:
    """`same`, `other` or None (nothing wrong), and it in words."""
    if result[0] == "client-error" and request.get("refusable"):
        return None, f"refused, as it may be: HTTP {result[1]}"
    failure = CASE["failure"]
    found = [against(str(one), request, result) for one in (failure["signature"], *(failure.get("also") or ()))]
    return next((one for one in found if one[0] == "same"), found[0])


def against(expected: str, request: dict[str, Any], result: tuple[str, int | None, str, Any]) -> tuple[str | None, str]:
    """As `verdict`, for one signature."""
    kind, status, said, answers = result
    if kind in ("ok", "cancelled"):
        wrong = faults(answers, request["body"])
        same = wrong.get(expected)
        return ("same", same) if same else ("other", "; ".join(wrong.values())) if wrong else (None, kind)
    told = f"{kind}{f', HTTP {status}' if status else ''}: {said or 'the server said nothing'}"
    oracle, _, rest = expected.partition(":")
    if oracle == "LOGPROB" and kind == "malformed" and "NaN" in said:
        return "same", told
    if oracle == "SURVIVAL":
        return ("same" if kind in (*GONE, *BROKEN) else "other"), told
    if oracle not in WIRE:
        return "other", told
    was, _, rest = rest.partition(":")
    code, _, before = rest.partition(":")
    same_words = code in ("-", str(status)) and identity(said) == before
    alike = kind == was or (kind in BROKEN and was in BROKEN)
    # What a broken connection says is this program's wording and not the server's.
    return ("same" if alike and (kind in BROKEN or same_words) else "other"), told


def waited(server: Server, seconds: float) -> str | None:
    """Wait until the server answers a short request; the name of its model, None when it never did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            status, _, raw = server.ask("GET", "/v1/models", timeout=5)
            model = json.loads(raw)["data"][0]["id"] if status == 200 else None
            body = {"model": model, "messages": [{"role": "user", "content": "ready?"}], "max_tokens": 1}
            if server.ask("POST", "/v1/chat/completions", body, 60)[0] == 200:
                return str(model)
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            pass
        time.sleep(0.2)
    return None


def step(
    server: Server, requests: list[dict[str, Any]], texts: dict[str, str], model: str
) -> list[tuple[str | None, str]]:
    """Send a step's requests in order, those that belong beside one another at once."""
    found: list[tuple[str | None, str]] = []
    waves: list[list[dict[str, Any]]] = []
    for request in requests:
        body = {**request["body"], **({"model": model} if "model" in request["body"] else {})}
        request = {**request, "body": body}
        if request.get("beside") and waves:
            waves[-1].append(request)
        else:
            waves.append([request])
    for wave in waves:
        time.sleep(wave[0].get("delay") or 0)
        with concurrent.futures.ThreadPoolExecutor(len(wave)) as pool:
            results = list(pool.map(lambda one: send(server, one, texts), wave))
        for request, result in zip(wave, results):  # noqa: B905 - Python 3.9 has no strict
            found.append(verdict(request, result))
            print(f"{request['id']}: {found[-1][1]}", flush=True)
            if found[-1][0]:
                return found
    return found


def main() -> int:
    """Send everything and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="the server, started afresh")
    parser.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the key")
    parser.add_argument("--wait", type=float, default=60, metavar="SECONDS", help="for the server to answer (60)")
    given = parser.parse_args()
    if CASE["withheld"]:
        print(f"CANNOT TELL: the text {CASE['withheld'][0]} is private and was left out (kvstress shrink --keep-text)")
        return 125
    server = Server(given.url, os.environ.get(given.api_key_env or ""), CASE["timeout"])
    model = waited(server, given.wait)
    if model is None:
        print(f"CANNOT TELL: {given.url} answered no short request within {given.wait:g} s")
        return 125
    texts = {name: prompt(one) for name, one in CASE["texts"].items()}
    found: list[tuple[str | None, str]] = []

    def unless_failed(requests: list[dict[str, Any]]) -> None:
        if not any(which for which, _ in found):
            found.extend(step(server, requests, texts, model))

    with concurrent.futures.ThreadPoolExecutor(max(1, CASE["lanes"])) as lanes:
        list(lanes.map(unless_failed, CASE["steps"]))
    return concluded(server, found)


def concluded(server: Server, found: list[tuple[str | None, str]]) -> int:
    """Print the verdict; its exit code."""
    expected = CASE["failure"]
    wrong = [(which, said) for which, said in found if which]
    oracle = expected["oracle"]
    if not wrong and oracle == "SURVIVAL" and waited(server, 5) is None:
        wrong = [("same", "nothing listens any more")]
    if wrong:
        print("STILL FAILS" if wrong[0][0] == "same" else "FAILS DIFFERENTLY", wrong[0][1], sep=": ")
        return 1
    if oracle not in WIRE and expected["signature"] not in JUDGED:
        print(f"CANNOT TELL: {oracle} ({expected['summary']}) needs the whole judge: kvstress replay repro.json")
        return 125
    print(f"FIXED: {len(found)} requests answered, none of them with: {expected['summary']}")
    failed, probes = CASE["probes"]
    if failed < probes:
        print(f"(it failed in {failed} of {probes} tries: try more than once, on a fresh server each)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
