"""A model as it is published: its files in, a description and a PyTorch module out.

What each file says, the tokenizer, the encoder and what follows it. May import `errors` and nothing above it."""
