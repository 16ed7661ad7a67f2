"""Read the files of a published model: its description, tokenizer and weights.

Only the module `encoder` needs torch. The modules may import `config` and `errors`.
"""
