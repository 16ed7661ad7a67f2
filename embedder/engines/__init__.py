"""Engines run a model: a plan in, an engine that turns token ids into vectors out.

`plan` decides, `package` keeps what `build_worker` compiled, `native` and `pytorch` run. May import `model`,
`config` and `cpu`. The C++ sources are in `embedder/native`."""
