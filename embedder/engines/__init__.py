"""Select, compile and run the engine that computes vectors from token ids.

`plan` selects an engine. `package` caches the files that `build_worker` compiles. `native` and `pytorch` run models.
These modules may import `model`, `config` and `cpu`. The C++ sources are in `embedder/native`.
"""
