"""A model as it is published: its files in, a description, its weights, and a PyTorch module out.

What each file says, the tokenizer, the encoder and what follows it. Only the modules need torch.
May import `config` and `errors`."""
