"""Extract the text of HTML pages as sections. Furniture is removed: navigation, controls, adverts and other boxes."""
