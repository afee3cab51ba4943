"""The painted parts of the race: lanes of pictures, tanks of memory, one number; and its clock."""
