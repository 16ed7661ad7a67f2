"""What runs a model: a plan in, an engine that turns token ids into vectors out.

`plan` decides, `package` and `building` keep what was compiled, `native` and `pytorch` run. May import `model`,
`config` and `cpu`. The C++ sources are in `embedder/native`."""
