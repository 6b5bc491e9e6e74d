"""The alias tables, one file per engine: what each exports of the quantities that a Sample has.

`kv_free` is filled only where the engine's "free" leaves out evictable cached tokens: elsewhere a pool
full of cached pages would look empty. Flare, vLLM and llama.cpp are checked on recorded pages; the
others were written from their sources.
"""

from kvstress.metrics.alias import Dialect
from kvstress.metrics.engines.dynamo import DYNAMO
from kvstress.metrics.engines.flare import FLARE
from kvstress.metrics.engines.llamacpp import LLAMACPP
from kvstress.metrics.engines.lmdeploy import LMDEPLOY
from kvstress.metrics.engines.sglang import SGLANG
from kvstress.metrics.engines.tensorrt import TENSORRT
from kvstress.metrics.engines.tgi import TGI
from kvstress.metrics.engines.vllm import VLLM

DIALECTS: tuple[Dialect, ...] = (FLARE, VLLM, LLAMACPP, SGLANG, TENSORRT, TGI, LMDEPLOY, DYNAMO)
