"""Read the files of a published model: its description, tokenizer and weights.

Only `encoder`, the PyTorch module, needs torch. These modules may import `config` and `errors`.
"""
