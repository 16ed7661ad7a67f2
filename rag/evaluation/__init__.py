"""Questions with known answers in, how well they are answered out, and by which of two sides better."""
