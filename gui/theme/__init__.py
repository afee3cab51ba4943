"""The look of the program: colors (light and dark), fonts, icons and the Qt style sheet."""
