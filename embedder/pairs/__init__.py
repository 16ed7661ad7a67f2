"""A cross-encoder as it is published: its description, the tokens of pairs of texts, and the head that scores them.

May import `model`, and is imported by the engines that run it."""
