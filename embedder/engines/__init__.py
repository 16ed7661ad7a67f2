"""A plan in, an engine out that turns token ids into vectors.

`plan` selects an engine, `package` stores what `build_worker` compiles, `native` and `pytorch` run models. May import
`model`, `config` and `cpu`. The C++ sources are in `embedder/native`.
"""
