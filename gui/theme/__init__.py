"""Colors, fonts, icons and the style sheet."""
