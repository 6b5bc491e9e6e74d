"""llama.cpp's own HTTP server, out of a wheel that carries it: flags as llama-server has them, no compiler needed."""

import argparse
import signal
import sys
import threading

import xllamacpp

# Flag → attribute of llama.cpp's parameters.
_NUMBERS = {
    "ctx-size": "n_ctx",
    "parallel": "n_parallel",
    "cache-ram": "cache_ram_mib",
    "cache-reuse": "n_cache_reuse",
    "ctx-checkpoints": "n_ctx_checkpoints",
    "batch-size": "n_batch",
    "ubatch-size": "n_ubatch",
}
_SWITCHES = {"kv-unified": "kv_unified", "swa-full": "swa_full"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", dest="model", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    # Its threads spin while they wait for one another: on cores that others use as well, two are slower than one.
    parser.add_argument("--threads", type=int, default=1)
    for flag in _NUMBERS:
        parser.add_argument(f"--{flag}", type=int)
    for flag in _SWITCHES:
        parser.add_argument(f"--{flag}", action="store_true")
    return parser.parse_args()


def _parameters(asked: argparse.Namespace) -> "xllamacpp.CommonParams":
    parameters = xllamacpp.CommonParams()
    parameters.model.path = asked.model
    parameters.hostnames = [asked.host]
    parameters.port = asked.port
    parameters.endpoint_metrics = parameters.endpoint_slots = parameters.endpoint_props = True
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = asked.threads
    for flag, name in {**_NUMBERS, **_SWITCHES}.items():
        value = getattr(asked, flag.replace("-", "_"))
        if value is not None and value is not False:
            setattr(parameters, name, value)
    return parameters


def main() -> None:
    """Serve until a signal asks to stop."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = xllamacpp.Server(_parameters(_arguments()))
    print("listening:", server.listening_address, "build:", xllamacpp.BUILD_INFO, flush=True)
    stop.wait()
    del server
    sys.exit(0)


if __name__ == "__main__":
    main()
