"""The setup form, in which the user chooses a question and the settings of an experiment."""
