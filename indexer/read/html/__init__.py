"""Extract the text of HTML pages as sections, without furniture: navigation, controls and boxes around the text."""
