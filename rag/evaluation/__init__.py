"""Questions with known answers in, the quality of a search or a comparison of two searches out."""
