"""kvstress: find the prompt that breaks an inference server's KV cache, and keep it from coming back."""

__version__ = "0.1.0"
