"""A published model: its files in, a description, its weights and a PyTorch module out.

Only `encoder` needs torch. May import `config` and `errors`.
"""
