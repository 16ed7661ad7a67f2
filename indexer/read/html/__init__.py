"""An HTML page in, the sections of its text out, without furniture: navigation, controls and boxes around it."""
