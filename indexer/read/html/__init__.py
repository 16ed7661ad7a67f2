"""Extract the text of HTML pages as sections. Boilerplate, such as navigation, controls and adverts, is removed."""
