"""Files and pickles: save and load."""
