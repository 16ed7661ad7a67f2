"""Extract the text of HTML pages as sections. Furniture, such as navigation, controls and adverts, is removed."""
